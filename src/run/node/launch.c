// Decides which node starts which rank: the node that creates the launch's key in the store. Publishes how the rank's
// process ended.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "run/common/roster.h"
#include "run/node/node.h"

enum { TAIL_LINES = 5 };

struct launch *node_launch_of(const struct node *node, uint32_t phase, int32_t rank) {
  const struct plan_ranks *ranks = &node->plan->ranks;
  if (phase >= node->plan->num_phases)
    return NULL;
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] == rank)
      return &node->launches[(size_t)phase * ranks->count + i];
  return NULL;
}

static struct run_child *free_slot(const struct node *node) {
  for (uint32_t i = 0; i < node->slots; i++)
    if (node->children[i].pid == 0)
      return &node->children[i];
  return NULL;
}

uint32_t node_free_slots(const struct node *node) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->slots; i++)
    count += node->children[i].pid == 0;
  return count;
}

static int start(struct node *node, struct run_child *slot, uint32_t phase, int32_t rank) {
  const struct run_config *config = &node->config;
  struct run_task task = {
      .endpoints = node->store.endpoints,
      .token = config->token,
      .ca_file = config->ca_file,
      .cert_file = config->cert_file,
      .key_file = config->key_file,
      .user = config->user,
      .password = config->password,
      .job = node->job,
      .run = node->run,
      .rank = rank,
      .slot = (uint32_t)(slot - node->children),
      .gpu = run_gpus_of_slot(&node->gpus, (uint32_t)(slot - node->children)),
      .phase = phase,
      .wait_limit_s = config->startup_timeout_s,
      .launch_ns = clock_ns(),
  };
  if (node_metrics_place(node, rank, &task.counters_fd, &task.counters_place))
    task.num_counters = node->metrics.num_counters;
  int log = -1, err = run_directory_open_log(&node->directory, rank, &log);
  if (!err) {
    err = run_child_start(slot, &task, log);
    close(log);
  }
  node->num_started += !err;
  if (!err)
    run_directory_event(&node->directory, "launch",
                        json_pack("{s:I, s:s, s:i, s:i, s:i, s:i, s:i}", "time_ns", (json_int_t)task.launch_ns, "host",
                                  node->host, "rank", (int)rank, "phase", (int)phase, "slot", (int)task.slot, "gpu",
                                  (int)task.gpu, "pid", (int)slot->pid));
  return err;
}

int node_launch(struct node *node, uint32_t phase) {
  if (node->leave.asked)
    return 0;
  if (node_restore_is_on(node))
    return 0; // launches of other nodes may not be in the store yet
  const struct plan_ranks *joins = &node->plan->phases[phase].joins;
  int err = 0;
  for (uint32_t i = 0; i < joins->count && !err; i++) {
    struct launch *launch = node_launch_of(node, phase, joins->rank[i]);
    struct run_child *slot = free_slot(node);
    if (!slot)
      return 0;
    if (launch->claimed && !(launch->asked && launch->node == node->id))
      continue;
    char key[RUN_KEY_SIZE];
    bool created = false;
    run_key(key, &node->keys, "launch/%u/%d", phase, joins->rank[i]);
    json_t *claim = json_pack("{s:i}", "agent", (int)node->id);
    launch->asked = true;
    err = run_storage_create(node->store.client, key, json_incref(claim), node->store.run_lease, &created);
    if (!err) {
      launch->asked = false;
      launch->claimed = true; // by this node or another: the watch reports which
    }
    if (!err && created) {
      run_reporter_keep(node->reporter, key, json_incref(claim));
      err = start(node, slot, phase, joins->rank[i]);
    }
    json_decref(claim);
  }
  if (run_storage_may_pass(err) || err == WEFT_ERR_NOT_FOUND) { // no answer or no lease: the loop handles both
    if (err == WEFT_ERR_NOT_FOUND)
      node_restore_begin(node);
    node_retry(node);
    return 0;
  }
  return err;
}

static void describe_exit(const struct node *node, const struct run_child *child, int status, struct text *text) {
  if (WIFSIGNALED(status))
    text_add(text, "rank %d on %s was ended by signal %d (%s)", child->rank, node->host, WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    text_add(text, "rank %d on %s exited with status %d", child->rank, node->host, WEXITSTATUS(status));
  if (node->phase.begun && node->phase.current < node->plan->num_phases)
    text_add(text, " in phase %u", node->phase.current);
  text_add(text, "; the end of its log, %s/rank-%d.log:", node->directory.path, child->rank);
  run_directory_log_tail(&node->directory, child->rank, TAIL_LINES, text);
}

// The time of a planned kill: the rank reported it itself, or it had to be killed from outside. 0: it was no
// planned kill.
static uint64_t planned_kill(const struct node *node, const struct run_child *child, int status) {
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  bool awaited = node->config.negative == RUN_NEGATIVE_LOST && node->phase.current < node->plan->num_phases &&
                 run_roster_dies(node->plan, RUN_NEGATIVE_LOST, node->phase.current, child->rank);
  return !killed ? 0 : child->kill_ns || !awaited ? child->kill_ns : clock_ns();
}

void node_publish_exit(struct node *node, const struct run_child *child, int status) {
  uint64_t kill_ns = planned_kill(node, child, status);
  bool planned = kill_ns != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  struct text what = {0};
  if (!planned)
    describe_exit(node, child, status, &what);
  if (what.data)
    printable_text(what.data); // JSON allows only UTF-8
  node_metrics_exit(node, !planned ? NODE_EXIT_FAILED : kill_ns ? NODE_EXIT_PLANNED_KILL : NODE_EXIT_DONE);
  int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  json_t *exit = json_pack("{s:b, s:i, s:I, s:s, s:s}", "planned", planned, "status", code, "kill_ns",
                           (json_int_t)kill_ns, "boot", node->boot, "what", what.data ? what.data : "");
  run_directory_event(&node->directory, "exit",
                      json_pack("{s:s, s:i, s:i, s:b, s:i}", "host", node->host, "rank", (int)child->rank, "phase",
                                (int)child->phase, "planned", planned, "status", code));
  char key[RUN_KEY_SIZE];
  run_key(key, &node->keys, "exit/%u/%d", child->phase, child->rank);
  text_free(&what);
  run_reporter_put(node->reporter, key, exit);
}
