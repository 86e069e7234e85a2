// Opens and closes a node: plan, store, run directory, and what it reads and writes in the store.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/common/host.h"
#include "run/node/node.h"
#include "topology/describe/describe.h"

enum { FLUSH_MS = 2000 }; // time to write the last reports when a node ends

static json_t *describe_host(void) {
  json_t *host = json_object();
  json_object_set_new(host, "version", json_string(weft_version()));
  json_object_set_new(host, "compiler", json_string(__VERSION__));
  json_object_set_new(host, "topology", topology_describe());
  return host;
}

static int open_directory(struct node *node) {
  char suffix[32] = "";
  if (!node->leads)
    snprintf(suffix, sizeof suffix, "-agent%u", node->id);
  int err = run_directory_open(&node->directory, node->config.run_dir, node->run, suffix);
  if (!err)
    err = run_directory_save(&node->directory, "host.json", describe_host());
  return err;
}

static int describe_run(struct node *node) {
  int err = run_directory_save(&node->directory, "config.json", run_settings_to_json(&node->config));
  return err ? err : run_directory_save(&node->directory, "plan.json", plan_to_json(node->plan));
}

static void log_memory(struct node *node) {
  bool cuda = node->config.memory == WEFT_EP_MEMORY_CUDA;
  run_directory_event(&node->directory, "memory",
                      json_pack("{s:s, s:i, s:s}", "memory", cuda ? "cuda" : "host", "gpus", (int)node->gpus.count,
                                "why", node->gpus.why));
}

static int load_plan(struct node *node) {
  const struct run_config *config = &node->config;
  if (config->plan)
    return plan_load(&node->plan, config->plan);
  if (config->plan_text)
    return plan_from_text(&node->plan, config->plan_text, strlen(config->plan_text));
  return config->lead || config->store
             ? 0
             : fail(WEFT_ERR_INVALID, "no plan is given: give one with --plan FILE, or join a run with --rank-server");
}

static int open_inbox(struct node *node) {
  return run_inbox_open(&node->inbox, node->store.client, node->keys.prefix);
}

static int open_reporter(struct node *node) {
  struct run_reporter_options options = {
      .store = node->store.client, .lease = node->store.run_lease, .live = node->keys.live, .run = node->run};
  return run_reporter_open(&node->reporter, &options);
}

// Asks for the store's version now, since the store may not answer at the end.
static int ask_version(struct node *node) {
  return weft_store_version(node->store.client, node->store.version, sizeof node->store.version, NULL);
}

// Access to the embedded store of a run needs the run's token. A token that is made here is shown only on a terminal.
static int choose_token(struct node *node) {
  struct run_config *config = &node->config;
  if (config->token)
    return 0;
  if (config->others_come && (config->quiet || !isatty(STDERR_FILENO)))
    return fail(WEFT_ERR_INVALID,
                "the plan needs %u process slots, but --num-processes is %u. Other agents have to join and need the "
                "token of this run, but %s: give all agents one token, in WEFT_TOKEN or by --token-file",
                node->plan->num_processes, config->num_processes,
                config->quiet ? "--quiet does not show it" : "there is no terminal on which to show one");
  if (node_places(node) > 1 && (config->quiet || !isatty(STDERR_FILENO)))
    return fail(WEFT_ERR_INVALID,
                "the other agents need the token of this run, but %s: give all agents one token, in WEFT_TOKEN or by "
                "--token-file",
                config->quiet ? "--quiet does not show it" : "there is no terminal on which to show one");
  secret_make(node->made_token);
  config->token = node->made_token;
  return 0;
}

int node_open(struct node *node, const struct node_role *lead) {
  node->role = &node_follower;
  progress_open(&node->progress, node->config.quiet);
  // With --json standard output is reserved for the results.
  node->lines.fd = node->config.json ? STDERR_FILENO : STDOUT_FILENO;
  node->retry_ns = CLOCK_NEVER;
  node->job = node->config.job ? node->config.job : RUN_DEFAULT_JOB;
  random_uuid(node->run);
  run_host_describe(node->host, sizeof node->host, node->boot, sizeof node->boot);
  int err = node_open_signals(node);
  if (!err)
    err = run_keys_check_job(node->job);
  if (!err)
    err = load_plan(node);
  if (!err && node->plan && !(node->plan_given = plan_to_json(node->plan)))
    err = fail(WEFT_ERR_NOMEM, "no memory for the plan");
  if (!err)
    node_expect_others(node);
  // A lead with an embedded store can check everything before anything is started.
  if (!err && !node->config.lead && !node->config.store) {
    node->leads = true;
    err = node_check_slots(node);
    if (!err)
      err = choose_token(node);
    if (!err)
      err = node_probe(node);
    if (!err)
      err = node_choose_memory(node);
    if (!err)
      err = open_directory(node);
  }
  if (!err && node->config.store && !node->config.lead && node->plan) // this node may become the lead
    err = node_probe(node);
  if (!err)
    err = node_rendezvous(node);
  if (!err && !node->directory.path)
    err = open_directory(node);
  if (!err)
    err = describe_run(node);
  if (!err)
    log_memory(node);
  if (!err)
    err = node_make_room(node);
  if (!err)
    err = node_metrics_open(node);
  if (!err)
    err = node_insist(node, open_inbox);
  if (!err)
    err = node_insist(node, ask_version);
  if (!err)
    err = open_reporter(node);
  if (node->leads)
    node->role = lead;
  if (!err)
    err = node->role->open(node);
  return err;
}

void node_close(struct node *node) {
  node_end_children(node);
  node_metrics_close(node);
  progress_close(&node->progress);
  if (node->role)
    node->role->close(node);
  run_reporter_close(node->reporter, clock_deadline_ms(FLUSH_MS));
  run_inbox_close(node->inbox);
  int err = 0;
  if (node->store.own_lease && node->store.client &&
      node->leads) // the keys of killed ranks are on leases that live a little longer
    err = weft_store_delete(node->store.client, node->keys.prefix, true, NULL);
  if (node->store.own_lease && node->store.client &&
      !err) // this deletes every key of this node; the lead's lease, every key of the run
    weft_store_lease_revoke(node->store.client, node->store.own_lease);
  weft_store_close(node->store.client);
  weft_store_server_stop(node->store.server);
  run_directory_close(&node->directory);
  free(node->children);
  free(node->launches);
  free(node->store.endpoints);
  explicit_bzero(node->made_token, sizeof node->made_token);
  plan_free(node->plan);
  json_decref(node->plan_given);
  run_current_free(&node->losses);
}
