// Which agent starts which rank: whoever creates the launch's key in the store. And how it ended.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/common/roster.h"
#include "run/node/node.h"

enum { TAIL_LINES = 5 };

struct launch *agent_launch_of(const struct agent *agent, uint32_t phase, int32_t rank) {
  const struct plan_ranks *ranks = &agent->plan->ranks;
  if (phase >= agent->plan->num_phases)
    return NULL;
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] == rank)
      return &agent->launches[(size_t)phase * ranks->count + i];
  return NULL;
}

static struct run_child *free_slot(const struct agent *agent) {
  for (uint32_t i = 0; i < agent->slots; i++)
    if (agent->children[i].pid == 0)
      return &agent->children[i];
  return NULL;
}

uint32_t agent_free_slots(const struct agent *agent) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < agent->slots; i++)
    count += agent->children[i].pid == 0;
  return count;
}

static int start(struct agent *agent, struct run_child *slot, uint32_t phase, int32_t rank) {
  const struct run_config *config = &agent->config;
  struct run_task task = {
      .endpoints = agent->endpoints,
      .token = config->token,
      .ca_file = config->ca_file,
      .cert_file = config->cert_file,
      .key_file = config->key_file,
      .user = config->user,
      .password = config->password,
      .job = agent->job,
      .run = agent->run,
      .rank = rank,
      .slot = (uint32_t)(slot - agent->children),
      .gpu = run_gpus_of_slot(&agent->gpus, (uint32_t)(slot - agent->children)),
      .phase = phase,
      .patience_s = config->startup_timeout_s,
      .launch_ns = clock_ns(),
  };
  int log = -1, err = run_directory_open_log(&agent->directory, rank, &log);
  if (!err) {
    err = run_child_start(slot, &task, log);
    close(log);
  }
  if (!err)
    run_directory_event(&agent->directory, "launch",
                        json_pack("{s:I, s:s, s:i, s:i, s:i, s:i, s:i}", "time_ns", (json_int_t)task.launch_ns, "host",
                                  agent->host, "rank", (int)rank, "phase", (int)phase, "slot", (int)task.slot, "gpu",
                                  (int)task.gpu, "pid", (int)slot->pid));
  return err;
}

int agent_launch(struct agent *agent, uint32_t phase) {
  if (agent_restore_is_on(agent))
    return 0; // what others have launched may not be in the store yet
  const struct plan_ranks *joins = &agent->plan->phases[phase].joins;
  int err = 0;
  for (uint32_t i = 0; i < joins->count && !err; i++) {
    struct launch *launch = agent_launch_of(agent, phase, joins->rank[i]);
    struct run_child *slot = free_slot(agent);
    if (!slot)
      return 0;
    if (launch->claimed && !(launch->asked && launch->agent == agent->id))
      continue;
    char key[RUN_KEY_SIZE];
    bool created = false;
    run_key(key, &agent->keys, "launch/%u/%d", phase, joins->rank[i]);
    json_t *claim = json_pack("{s:i}", "agent", (int)agent->id);
    launch->asked = true;
    err = run_storage_create(agent->store, key, json_incref(claim), agent->run_lease, &created);
    if (!err) {
      launch->asked = false;
      launch->claimed = true; // by this agent or another: the watch will say whose
    }
    if (!err && created) {
      run_reporter_keep(agent->reporter, key, json_incref(claim));
      err = start(agent, slot, phase, joins->rank[i]);
    }
    json_decref(claim);
  }
  if (run_storage_may_pass(err) || err == WEFT_ERR_NOT_FOUND) { // no answer, or no lease: the loop looks after both
    if (err == WEFT_ERR_NOT_FOUND)
      agent_restore_begin(agent);
    agent_retry(agent);
    return 0;
  }
  return err;
}

static void describe_exit(const struct agent *agent, const struct run_child *child, int status, struct text *text) {
  if (WIFSIGNALED(status))
    text_add(text, "rank %d on %s was ended by signal %d (%s)", child->rank, agent->host, WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    text_add(text, "rank %d on %s exited with status %d", child->rank, agent->host, WEXITSTATUS(status));
  text_add(text, "; the end of its log, %s/rank-%d.log:", agent->directory.path, child->rank);
  run_directory_log_tail(&agent->directory, child->rank, TAIL_LINES, text);
}

// When it was killed, if the plan has that: it has said so itself, or it was to be killed from outside.
static uint64_t planned_kill(const struct agent *agent, const struct run_child *child, int status) {
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  bool awaited = agent->config.negative == RUN_NEGATIVE_LOST && agent->current < agent->plan->num_phases &&
                 run_roster_dies(agent->plan, RUN_NEGATIVE_LOST, agent->current, child->rank);
  return !killed ? 0 : child->kill_ns || !awaited ? child->kill_ns : clock_ns();
}

void agent_tell_exit(struct agent *agent, const struct run_child *child, int status) {
  uint64_t kill_ns = planned_kill(agent, child, status);
  bool planned = kill_ns != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  struct text what = {0};
  if (!planned)
    describe_exit(agent, child, status, &what);
  int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  json_t *exit = json_pack("{s:b, s:i, s:I, s:s, s:s}", "planned", planned, "status", code, "kill_ns",
                           (json_int_t)kill_ns, "boot", agent->boot, "what", what.data ? what.data : "");
  run_directory_event(&agent->directory, "exit",
                      json_pack("{s:s, s:i, s:i, s:b, s:i}", "host", agent->host, "rank", (int)child->rank, "phase",
                                (int)child->phase, "planned", planned, "status", code));
  char key[RUN_KEY_SIZE];
  run_key(key, &agent->keys, "exit/%u/%d", child->phase, child->rank);
  text_free(&what);
  run_reporter_put(agent->reporter, key, exit);
}
