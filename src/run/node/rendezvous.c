// How nodes find each other: one leads, the others follow. The key /weft/<job>/run, on the lead's lease, names the
// live run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/processors.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/common/own_address.h"
#include "run/node/node.h"

enum { RETRY_MS = 50, FIRST_TRIES = 3 };

static int open_store(struct node *node, const char *endpoints) {
  node->store.endpoints = strdup(endpoints);
  return node->store.endpoints ? node_open_client(node, endpoints, &node->store.client)
                               : fail(WEFT_ERR_NOMEM, "no memory for a store");
}

static void close_store(struct node *node) {
  weft_store_close(node->store.client);
  free(node->store.endpoints);
  node->store.client = NULL;
  node->store.endpoints = NULL;
}

static int start_server(struct node *node) {
  const struct run_config *config = &node->config;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.address = config->listen ? config->listen : config->others_come ? run_any_address() : "127.0.0.1";
  options.port = config->store_port ? config->store_port : node_places(node) > 1 ? RUN_DEFAULT_PORT : 0;
  options.token = config->token;
  int err = weft_store_server_start(&node->store.server, &options);
  if (err == WEFT_ERR_BUSY)
    return fail(err,
                "the store of this run cannot listen: port %u of %s is in use, perhaps by another lead's store. Give "
                "another port by --store-port, and the other agents HOST:PORT by --rank-server; or join that lead's "
                "run by --rank-server",
                options.port, options.address);
  return err ? run_listen_failed(err, config->listen) : open_store(node, weft_store_server_url(node->store.server));
}

int node_insist(struct node *node, int (*step)(struct node *node)) {
  uint64_t deadline = clock_deadline_ms((uint64_t)node->config.startup_timeout_s * 1000);
  for (;;) {
    int err = step(node);
    if (!run_storage_may_pass(err)) {
      if (!err)
        node_store_answered(node);
      return err;
    }
    if (clock_passed(deadline))
      return fail_context(err, "the store %s has not answered for %u s", node->store.endpoints,
                          node->config.startup_timeout_s);
    node_store_silent(node, node->config.startup_timeout_s);
    err = node_pause(node, RETRY_MS);
    if (err)
      return err;
  }
}

// The value of the run's key.
static json_t *describe_run(const struct node *node) {
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:O}", "run", node->run, "host", node->host, "pid",
                   (json_int_t)getpid(), "lease", (json_int_t)node->store.run_lease, "agents",
                   (json_int_t)node_places(node), "config", run_settings_to_json(&node->config), "plan",
                   node->plan_given);
}

int node_grant_lease(struct node *node) {
  int err = weft_store_lease_grant(node->store.client, RUN_LEASE_TTL_S, &node->store.own_lease, NULL);
  node->store.renew_ns = clock_deadline_ms(RUN_RENEW_MS);
  return err;
}

// The value of the key agent/<id>. In containers two agents may have the same host name and the same process number.
// The lease tells an agent's own key from that of another agent.
static json_t *describe_node(const struct node *node) {
  uint32_t slots = node->config.num_processes ? node->config.num_processes : node->plan->num_processes;
  char cpus[RUN_CPUS_SIZE];
  unsigned usable = processors_usable(NULL, cpus, sizeof cpus);
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:b, s:I, s:s, s:b}", "host", node->host, "boot", node->boot, "pid",
                   (json_int_t)getpid(), "lease", (json_int_t)node->store.own_lease, "slots", (json_int_t)slots, "gpus",
                   run_gpus_names(&node->gpus), "share_gpus", node->config.share_gpus, "processors", (json_int_t)usable,
                   "cpus", cpus, "leaving", node->leave.asked);
}

int node_register(struct node *node, bool *created) {
  char key[RUN_KEY_SIZE];
  run_key(key, &node->keys, "agent/%u", node->id);
  return run_storage_create(node->store.client, key, describe_node(node), node->store.own_lease, created);
}

int node_publish_leaving(struct node *node) {
  char key[RUN_KEY_SIZE];
  run_key(key, &node->keys, "agent/%u", node->id);
  return run_storage_put(node->store.client, key, describe_node(node), node->store.own_lease);
}

int node_create_run(struct node *node, bool *created) {
  return run_storage_create(node->store.client, node->keys.live, describe_run(node), node->store.run_lease, created);
}

// Tries to become the lead of the job. Afterwards this node or another one leads.
static int try_lead(struct node *node) {
  bool leads = false, registered = false;
  int err = node->store.own_lease ? 0 : node_grant_lease(node);
  node->store.run_lease = node->store.own_lease;
  if (!err)
    err = node_create_run(node, &leads);
  if (!err && leads)
    err = node_register(node, &registered);
  node->leads = !err && leads;
  return err;
}

// Registers under the lowest free node number, if there is one.
static int take_place(struct node *node) {
  int err = node->store.own_lease ? 0 : node_grant_lease(node);
  node->id = 0;
  node->place.taken = false;
  while (!err && !node->place.taken && node->id + 1 < node->place.expected) {
    node->id++;
    err = node_register(node, &node->place.taken);
  }
  return err;
}

int node_refuse(const struct node *node, const json_t *live, const char *why) {
  const char *host = json_string_value(json_object_get(live, "host"));
  const char *run = json_string_value(json_object_get(live, "run"));
  return fail(WEFT_ERR_BUSY, "job '%s' is being run by process %lld on %s (run %s)%s; use --job NAME for another one",
              node->job, (long long)json_integer_value(json_object_get(live, "pid")), host ? host : "?",
              run ? run : "?", why);
}

// Takes the lead's configuration and plan.
static int adopt(struct node *node, const json_t *live) {
  const char *run = json_string_value(json_object_get(live, "run"));
  char *text = json_dumps(json_object_get(live, "plan"), JSON_COMPACT);
  int err = run && strlen(run) < sizeof node->run && text
                ? 0
                : fail(WEFT_ERR_PROTOCOL, "key %s of the store does not describe a run", node->keys.live);
  if (!err)
    err = run_settings_check_given(&node->config, json_object_get(live, "config"));
  if (!err)
    err = run_settings_from_json(&node->config, json_object_get(live, "config"));
  plan_free(node->plan);
  node->plan = NULL;
  if (!err)
    err = plan_from_text(&node->plan, text, strlen(text));
  free(text);
  if (err)
    return err;
  snprintf(node->run, sizeof node->run, "%s", run);
  node->store.run_lease = (int64_t)json_integer_value(json_object_get(live, "lease"));
  run_keys_init(&node->keys, node->job, node->run);
  return 0;
}

static bool same_plan(const struct node *node, const json_t *live) {
  json_t *own = node->plan ? plan_to_json(node->plan) : NULL;
  bool same = !node->plan || json_equal(own, json_object_get(live, "plan"));
  json_decref(own);
  return same;
}

enum { PLAN_SHOWN = 200 }; // characters of a plan in an error

static int other_plan(const struct node *node, const json_t *live) {
  json_t *json = plan_to_json(node->plan);
  char *own = json_dumps(json, JSON_COMPACT), *lead = json_dumps(json_object_get(live, "plan"), JSON_COMPACT);
  int err = fail(WEFT_ERR_INVALID,
                 "--plan is %.*s here, but %.*s at the lead, which decides: give the same plan, or omit the option",
                 PLAN_SHOWN, own ? own : "?", PLAN_SHOWN, lead ? lead : "?");
  free(own);
  free(lead);
  json_decref(json);
  return err;
}

// Joins the live run, under the lowest free node number.
static int follow(struct node *node, const json_t *live) {
  json_int_t nodes = json_integer_value(json_object_get(live, "agents"));
  if (nodes <= 1)
    return node_refuse(node, live, ", which expects no other agents (--num-agents, --agents elastic)");
  if (!same_plan(node, live) && node->config.lead)
    return other_plan(node, live);
  if (!same_plan(node, live))
    return node_refuse(node, live, " with another plan");
  node->place.expected = (uint32_t)nodes;
  int err = adopt(node, live);
  if (!err)
    err = node_choose_memory(node); // as the lead has decided
  if (!err)
    err = node_insist(node, take_place);
  if (!err && !node->place.taken)
    err = node_refuse(node, live,
                      node->config.agents == RUN_AGENTS_ELASTIC
                          ? ", and all its places are taken; the place of a dead agent becomes free after 10 s"
                          : ", and all its agents have joined already (with --agents elastic others may come later)");
  return err;
}

static int wait_and_follow(struct node *node) {
  json_t *live = NULL;
  int err = node_find_lead(node, &live);
  if (!err)
    err = follow(node, live);
  json_decref(live);
  return err;
}

// The first node with a plan leads, the others follow.
static int lead_or_follow(struct node *node) {
  json_t *live = NULL;
  int err = WEFT_ERR_UNREACHABLE;
  for (int i = 0; i < FIRST_TRIES && run_storage_may_pass(err);
       i++) // few tries, so that a missing store is reported at once
    err = run_storage_get(node->store.client, node->keys.live, &live);
  bool first = live == NULL;
  json_decref(live);
  if (!err && first)
    err = node_check_slots(node);
  if (!err && first && !node->directory.path) // with an embedded store it is chosen already
    err = node_choose_memory(node);
  if (!err && first)
    err = node_insist(node, try_lead);
  if (err || node->leads)
    return err;
  close_store(node); // from here on this node looks for the run like any other
  return wait_and_follow(node);
}

int node_rendezvous(struct node *node) {
  run_keys_init(&node->keys, node->job, node->run);
  const struct run_config *config = &node->config;
  if (config->lead || !node->plan)
    return wait_and_follow(node);
  int err = config->store ? open_store(node, config->store) : start_server(node);
  return err ? err : lead_or_follow(node);
}
