// The agent's beginning and end.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/host.h"
#include "run/node/node.h"
#include "topology/topology.h"

enum { FLUSH_MS = 2000 }; // what an agent that goes has still to say may take so long

int agent_pause(struct agent *agent, int ms) {
  struct pollfd fd = {.fd = agent->signal_fd, .events = POLLIN};
  struct signalfd_siginfo info;
  if (poll(&fd, 1, ms) <= 0 || read(agent->signal_fd, &info, sizeof info) != sizeof info)
    return 0;
  agent->signal_number = (int)info.ssi_signo;
  return fail(WEFT_ERR_CANCELED, "interrupted by SIG%s", sigabbrev_np(agent->signal_number));
}

static json_t *describe_host(void) {
  json_t *host = json_object();
  json_object_set_new(host, "version", json_string(weft_version()));
  json_object_set_new(host, "compiler", json_string(__VERSION__));
  json_object_set_new(host, "topology", topology_describe());
  return host;
}

static int open_directory(struct agent *agent) {
  char suffix[32] = "";
  if (!agent->leads)
    snprintf(suffix, sizeof suffix, "-agent%u", agent->id);
  int err = run_directory_open(&agent->directory, agent->config.run_dir, agent->run, suffix);
  if (!err)
    err = run_directory_save(&agent->directory, "host.json", describe_host());
  return err;
}

static int describe_run(struct agent *agent) {
  int err = run_directory_save(&agent->directory, "config.json", run_settings_to_json(&agent->config));
  return err ? err : run_directory_save(&agent->directory, "plan.json", plan_to_json(agent->plan));
}

static void tell_memory(struct agent *agent) {
  bool cuda = agent->config.memory == WEFT_EP_MEMORY_CUDA;
  run_directory_event(&agent->directory, "memory",
                      json_pack("{s:s, s:i, s:s}", "memory", cuda ? "cuda" : "host", "gpus", (int)agent->gpus.count,
                                "why", agent->gpus.why));
}

static int load_plan(struct agent *agent) {
  const struct run_config *config = &agent->config;
  if (config->plan)
    return plan_load(&agent->plan, config->plan);
  if (config->plan_text)
    return plan_from_text(&agent->plan, config->plan_text, strlen(config->plan_text));
  return config->lead || config->store
             ? 0
             : fail(WEFT_ERR_INVALID, "there is no plan: give one with --plan FILE, or join a run with --rank-server");
}

int agent_check_slots(const struct agent *agent) {
  const struct run_config *config = &agent->config;
  return config->num_agents > 1 || config->num_processes == 0 ? 0
                                                              : plan_check_slots(agent->plan, config->num_processes);
}

// Ranks that may be live at once here. Of several agents that are not told, none takes more than it has GPUs for.
static uint32_t num_live(const struct agent *agent) {
  uint32_t slots = agent->config.num_processes, most = agent->plan->num_processes;
  return slots && slots < most ? slots : most;
}

int agent_choose_memory(struct agent *agent) {
  struct run_config *config = &agent->config;
  bool was_auto = config->memory == WEFT_EP_MEMORY_AUTO;
  uint32_t most = num_live(agent), least = config->num_agents > 1 && config->num_processes == 0 ? 1 : most;
  int err = run_gpus_choose(&agent->gpus, config, &(struct run_gpus_need){agent->plan->num_processes, least, most});
  if (err)
    return err;
  if (config->memory == WEFT_EP_MEMORY_CUDA)
    config->num_processes = config->share_gpus ? most : agent->gpus.count;
  if (was_auto && agent->gpus.why[0] && !config->quiet)
    fprintf(stderr, "weft elastic: --memory auto: host memory, because %s\n", agent->gpus.why);
  return 0;
}

static int make_room(struct agent *agent) {
  agent->slots = agent->config.num_processes ? agent->config.num_processes : agent->plan->num_processes;
  agent->children = calloc(agent->slots, sizeof *agent->children);
  agent->launches = calloc((size_t)agent->plan->num_phases * agent->plan->ranks.count, sizeof *agent->launches);
  return agent->children && agent->launches ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u ranks", agent->slots);
}

static int open_signals(struct agent *agent) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  // Before any thread is there, so that all have them blocked.
  if (pthread_sigmask(SIG_BLOCK, &set, NULL) || (agent->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
    return fail_errno(errno, "cannot take signals");
  return 0;
}

static int open_inbox(struct agent *agent) {
  return run_inbox_open(&agent->inbox, agent->store, agent->keys.prefix);
}

static int open_reporter(struct agent *agent) {
  struct run_reporter_options options = {
      .store = agent->store, .lease = agent->run_lease, .live = agent->keys.live, .run = agent->run};
  return run_reporter_open(&agent->reporter, &options);
}

// Asked now, for at the end the store may be away.
static int ask_version(struct agent *agent) {
  return weft_store_version(agent->store, agent->store_version, sizeof agent->store_version);
}

// Nobody who cannot show the token of a run reaches its store. One that is made is shown on the terminal, and nowhere
// else.
static int choose_token(struct agent *agent) {
  struct run_config *config = &agent->config;
  if (config->token)
    return 0;
  if (config->num_agents > 1 && (config->quiet || !isatty(STDERR_FILENO)))
    return fail(WEFT_ERR_INVALID,
                "the other agents want the token of this run, and %s: give all one, in WEFT_TOKEN or by --token-file",
                config->quiet ? "--quiet does not show it" : "there is no terminal to show one on");
  secret_make(agent->made_token);
  config->token = agent->made_token;
  return 0;
}

int agent_open(struct agent *agent) {
  agent->retry_ns = CLOCK_NEVER;
  agent->job = agent->config.job ? agent->config.job : RUN_DEFAULT_JOB;
  random_uuid(agent->run);
  run_host_describe(agent->host, sizeof agent->host, agent->boot, sizeof agent->boot);
  int err = open_signals(agent);
  if (!err)
    err = run_keys_check_job(agent->job);
  if (!err)
    err = load_plan(agent);
  // Who leads with a store of its own knows all that can be wrong before anything is started.
  if (!err && !agent->config.lead && !agent->config.store) {
    agent->leads = true;
    err = agent_check_slots(agent);
    if (!err)
      err = choose_token(agent);
    if (!err)
      err = agent_choose_memory(agent);
    if (!err)
      err = open_directory(agent);
  }
  if (!err)
    err = agent_rendezvous(agent);
  if (!err && !agent->directory.path)
    err = open_directory(agent);
  if (!err)
    err = describe_run(agent);
  if (!err)
    tell_memory(agent);
  if (!err)
    err = make_room(agent);
  if (!err)
    err = agent_insist(agent, open_inbox);
  if (!err)
    err = agent_insist(agent, ask_version);
  if (!err)
    err = open_reporter(agent);
  if (!err && agent->leads)
    err = lead_open(agent);
  if (!err)
    progress_open(&agent->progress, agent->config.quiet);
  return err;
}

void agent_close(struct agent *agent) {
  agent_end_children(agent);
  progress_close(&agent->progress);
  lead_close(agent);
  run_reporter_close(agent->reporter, clock_deadline_ms(FLUSH_MS));
  run_inbox_close(agent->inbox);
  int err = 0;
  if (agent->own_lease && agent->leads) // ranks that were killed have left keys, on leases that live a little longer
    err = weft_store_delete(agent->store, agent->keys.prefix, true, NULL);
  if (agent->own_lease && !err) // with every key of this agent, and the lead's with every key of the run
    weft_store_lease_revoke(agent->store, agent->own_lease);
  weft_store_close(agent->store);
  weft_store_server_stop(agent->server);
  run_directory_close(&agent->directory);
  free(agent->children);
  free(agent->launches);
  free(agent->endpoints);
  explicit_bzero(agent->made_token, sizeof agent->made_token);
  plan_free(agent->plan);
}
