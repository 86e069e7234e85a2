// How agents find each other: one leads, the others follow. The key /weft/<job>/run, on the lead's lease, names the
// live run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/node/node.h"

enum { RETRY_MS = 50, FIRST_TRIES = 3 };

static int open_client(struct agent *agent, const char *endpoints) {
  const struct run_config *config = &agent->config;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = endpoints;
  options.request_timeout_ms = RUN_REQUEST_MS;
  options.token = config->token;
  options.ca_file = config->ca_file;
  options.cert_file = config->cert_file;
  options.key_file = config->key_file;
  options.user = config->user;
  options.password = config->password;
  agent->endpoints = strdup(endpoints);
  return agent->endpoints ? weft_store_open(&agent->store, &options) : fail(WEFT_ERR_NOMEM, "no memory for a store");
}

static int start_server(struct agent *agent) {
  const struct run_config *config = &agent->config;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.address = config->listen;
  options.port = config->store_port ? config->store_port : config->num_agents > 1 ? RUN_DEFAULT_PORT : 0;
  options.token = config->token;
  int err = weft_store_server_start(&agent->server, &options);
  return err ? err : open_client(agent, weft_store_server_url(agent->server));
}

int agent_insist(struct agent *agent, int (*step)(struct agent *agent)) {
  uint64_t deadline = clock_deadline_ms((uint64_t)agent->config.startup_timeout_s * 1000);
  for (;;) {
    int err = step(agent);
    if (!run_storage_may_pass(err) || clock_passed(deadline))
      return err;
    err = agent_pause(agent, RETRY_MS);
    if (err)
      return err;
  }
}

// The run key's value.
static json_t *describe_run(const struct agent *agent) {
  uint32_t agents = agent->config.num_agents ? agent->config.num_agents : 1;
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "run", agent->run, "host", agent->host, "pid",
                   (json_int_t)getpid(), "lease", (json_int_t)agent->run_lease, "agents", (json_int_t)agents, "config",
                   run_settings_to_json(&agent->config), "plan", plan_to_json(agent->plan));
}

int agent_grant_lease(struct agent *agent) {
  int err = weft_store_lease_grant(agent->store, RUN_LEASE_TTL_S, &agent->own_lease, NULL);
  agent->renew_ns = clock_deadline_ms(RUN_RENEW_MS);
  return err;
}

int agent_register(struct agent *agent, bool *created) {
  char key[RUN_KEY_SIZE];
  uint32_t slots = agent->config.num_processes ? agent->config.num_processes : agent->plan->num_processes;
  run_key(key, &agent->keys, "agent/%u", agent->id);
  return run_storage_create(agent->store, key,
                            json_pack("{s:s, s:s, s:I, s:I, s:o, s:b}", "host", agent->host, "boot", agent->boot, "pid",
                                      (json_int_t)getpid(), "slots", (json_int_t)slots, "gpus",
                                      run_gpus_names(&agent->gpus), "share_gpus", agent->config.share_gpus),
                            agent->own_lease, created);
}

int agent_create_run(struct agent *agent, bool *created) {
  return run_storage_create(agent->store, agent->keys.live, describe_run(agent), agent->run_lease, created);
}

// Tries to be the lead of the job: it leads afterwards, or somebody else does.
static int try_lead(struct agent *agent) {
  bool leads = false, registered = false;
  int err = agent->own_lease ? 0 : agent_grant_lease(agent);
  agent->run_lease = agent->own_lease;
  if (!err)
    err = agent_create_run(agent, &leads);
  if (!err && leads)
    err = agent_register(agent, &registered);
  agent->leads = !err && leads;
  return err;
}

// Registers as the lowest agent that is free, if any is.
static int take_place(struct agent *agent) {
  int err = agent->own_lease ? 0 : agent_grant_lease(agent);
  agent->id = 0;
  agent->registered = false;
  while (!err && !agent->registered && agent->id + 1 < agent->num_places) {
    agent->id++;
    err = agent_register(agent, &agent->registered);
  }
  return err;
}

int agent_refuse(const struct agent *agent, const json_t *live, const char *why) {
  const char *host = json_string_value(json_object_get(live, "host"));
  const char *run = json_string_value(json_object_get(live, "run"));
  return fail(WEFT_ERR_BUSY, "job '%s' is being run by process %lld on %s (run %s)%s; use --job NAME for another one",
              agent->job, (long long)json_integer_value(json_object_get(live, "pid")), host ? host : "?",
              run ? run : "?", why);
}

// Takes the lead's configuration and plan.
static int adopt(struct agent *agent, const json_t *live) {
  const char *run = json_string_value(json_object_get(live, "run"));
  char *text = json_dumps(json_object_get(live, "plan"), JSON_COMPACT);
  int err = run && strlen(run) < sizeof agent->run && text
                ? 0
                : fail(WEFT_ERR_PROTOCOL, "key %s of the store is not a run's", agent->keys.live);
  if (!err)
    err = run_settings_from_json(&agent->config, json_object_get(live, "config"));
  plan_free(agent->plan);
  agent->plan = NULL;
  if (!err)
    err = plan_from_text(&agent->plan, text, strlen(text));
  free(text);
  if (err)
    return err;
  snprintf(agent->run, sizeof agent->run, "%s", run);
  agent->run_lease = (int64_t)json_integer_value(json_object_get(live, "lease"));
  run_keys_init(&agent->keys, agent->job, agent->run);
  return 0;
}

static bool same_plan(const struct agent *agent, const json_t *live) {
  json_t *own = agent->plan ? plan_to_json(agent->plan) : NULL;
  bool same = !agent->plan || json_equal(own, json_object_get(live, "plan"));
  json_decref(own);
  return same;
}

// Joins the live run, as the lowest agent that is free.
static int follow(struct agent *agent, const json_t *live) {
  json_int_t agents = json_integer_value(json_object_get(live, "agents"));
  if (agents <= 1)
    return agent_refuse(agent, live, ", which expects no other agents (--num-agents)");
  if (!same_plan(agent, live))
    return agent_refuse(agent, live, " with another plan");
  agent->num_places = (uint32_t)agents;
  int err = adopt(agent, live);
  if (!err)
    err = agent_choose_memory(agent); // that of the lead
  if (!err)
    err = agent_insist(agent, take_place);
  if (!err && !agent->registered)
    err = agent_refuse(agent, live, ", and all its agents are there");
  return err;
}

static int wait_and_follow(struct agent *agent) {
  uint64_t deadline = clock_deadline_ms((uint64_t)agent->config.startup_timeout_s * 1000);
  for (;;) {
    json_t *live = NULL;
    int err = run_storage_get(agent->store, agent->keys.live, &live);
    if (!err && live) {
      err = follow(agent, live);
      json_decref(live);
      return err;
    }
    if (err && !run_storage_may_pass(err)) // the lead, or its store, may not be up yet
      return err;
    if (clock_passed(deadline))
      return err ? fail_context(err, "the lead's store did not answer within %u s", agent->config.startup_timeout_s)
                 : fail(WEFT_ERR_TIMEOUT, "no lead of job '%s' came to the store %s within %u s", agent->job,
                        agent->endpoints, agent->config.startup_timeout_s);
    err = agent_pause(agent, RETRY_MS);
    if (err)
      return err;
  }
}

// The first agent with a plan leads, the others follow.
static int lead_or_follow(struct agent *agent) {
  json_t *live = NULL;
  int err = WEFT_ERR_UNREACHABLE;
  for (int i = 0; i < FIRST_TRIES && run_storage_may_pass(err);
       i++) // a store that is not there is said to be so at once
    err = run_storage_get(agent->store, agent->keys.live, &live);
  bool first = live == NULL;
  json_decref(live);
  if (!err && first)
    err = agent_check_slots(agent);
  if (!err && first && !agent->directory.path) // who has its own store has chosen
    err = agent_choose_memory(agent);
  if (!err && first)
    err = agent_insist(agent, try_lead);
  return err || agent->leads ? err : wait_and_follow(agent);
}

// The URL of the store that the lead at HOST[:PORT] has embedded: as weft_store_server_url() says it there. NULL when
// memory ran out.
static char *lead_url(const char *lead) {
  static const char scheme[] = "https";
  const char *colon = strrchr(lead, ':');
  char *url = NULL;
  bool has_port = colon && (strchr(lead, ':') == colon || colon[-1] == ']'); // an IPv6 address stands in brackets
  int size =
      has_port ? asprintf(&url, "%s://%s", scheme, lead) : asprintf(&url, "%s://%s:%d", scheme, lead, RUN_DEFAULT_PORT);
  return size < 0 ? NULL : url;
}

static int open_lead_store(struct agent *agent) {
  char *url = lead_url(agent->config.lead);
  if (!url)
    return fail(WEFT_ERR_NOMEM, "no memory for a URL");
  int err = open_client(agent, url);
  free(url);
  return err;
}

int agent_rendezvous(struct agent *agent) {
  run_keys_init(&agent->keys, agent->job, agent->run);
  const struct run_config *config = &agent->config;
  int err = config->lead    ? open_lead_store(agent)
            : config->store ? open_client(agent, config->store)
                            : start_server(agent);
  if (err)
    return err;
  return agent->plan && !config->lead ? lead_or_follow(agent) : wait_and_follow(agent);
}
