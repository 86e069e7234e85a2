// Opens and closes an agent, and sets the hooks by which lower folders reach higher ones.
#include "agent/open.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/housekeeping.h"
#include "agent/metadata/describe.h"
#include "agent/metrics/metrics.h"
#include "agent/peer/message_recv.h"
#include "agent/peer/message_send.h"
#include "agent/peer/table.h"
#include "agent/progress/progress.h"
#include "agent/progress/worker.h"
#include "agent/services.h"
#include "agent/transfer/descriptor_list.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"
#include "base/random.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "base/time/ticks.h"
#include "secure/secret.h"
#include "store/prefix.h"

// How the folders below reach those above them.
static const struct agent_hooks hooks = {
    .tick = agent_housekeep,
    .message = agent_inbox_message,
    .link_failed = agent_peer_failed,
    .region_gone = liveness_region_gone,
    .regions_changed = agent_services_regions_changed,
    .stop_transfers = agent_transfers_stop,
    .unprepare_transfers = agent_transfers_unprepare,
    .peer_changed = liveness_peer_changed,
    .forget_peer = liveness_forget_peer,
    .control_message = liveness_control_message,
    .life_ended = socket_exchange_end,
};

enum { CLOSE_MS = 1000 }; // for requests in flight to end

static uint32_t or_default(uint32_t value, uint32_t preset) {
  return value != 0 ? value : preset;
}

static int check(const struct weft_agent_options *options) {
  if (!options->name || !options->name[0])
    return fail(WEFT_ERR_INVALID, "an agent needs a name, by which the others know it: set weft_agent_options.name");
  if (strlen(options->name) >= WEFT_AGENT_MAX_NAME)
    return fail(WEFT_ERR_LIMIT, "the name has %zu bytes: want at most %d", strlen(options->name),
                WEFT_AGENT_MAX_NAME - 1);
  for (const char *at = options->name; *at; at++)
    if ((unsigned char)*at < ' ' || *at == 0x7F) // the loading agents have the same rule
      return fail(WEFT_ERR_INVALID, "byte %d of the name is a control character (%d)", (int)(at - options->name), *at);
  if (options->progress != WEFT_AGENT_PROGRESS_THREAD && options->progress != WEFT_AGENT_PROGRESS_NONE)
    return fail(WEFT_ERR_INVALID, "progress is %d, which is not in enum weft_agent_progress", (int)options->progress);
  if (options->listen && !(options->token && options->token[0]))
    return fail(WEFT_ERR_INVALID, "an agent that listens needs a token, which the agents that connect to it share");
  const char *prefix = options->prefix;
  return store_prefix_complete(options->store, "the agents", &prefix);
}

// The strings of the options, one behind the other in one block.
static int copy_strings(weft_agent_t *agent) {
  struct weft_agent_options *options = &agent->options;
  const char **strings[] = {&options->name, &options->transports, &options->prefix, &options->listen, &options->token};
  size_t size = 0;
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
    size += *strings[i] ? strlen(*strings[i]) + 1 : 0;
  char *place = agent->strings = malloc(size);
  if (!place)
    return fail(WEFT_ERR_NOMEM, "no memory for an agent");
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    if (!*strings[i])
      continue;
    size_t length = strlen(*strings[i]) + 1;
    *strings[i] = memcpy(place, *strings[i], length);
    place += length;
  }
  return 0;
}

static int complete(weft_agent_t *agent, const struct weft_agent_options *given) {
  struct weft_agent_options *options = &agent->options;
  *options = *given;
  int err = store_prefix_complete(options->store, "the agents", &options->prefix);
  if (err)
    return err;
  options->spin_us = or_default(options->spin_us, 50);
  options->heartbeat_ms = or_default(options->heartbeat_ms, 1000);
  options->peer_timeout_ms = or_default(options->peer_timeout_ms, 5000);
  options->transfer_timeout_ms = or_default(options->transfer_timeout_ms, 30000);
  options->lease_ttl_s = or_default(options->lease_ttl_s, 10);
  return copy_strings(agent);
}

// A new life of the agent: no other process has its private key, and so its incarnation.
static int be_born(weft_agent_t *agent) {
  int rc = 0;
  do {
    exchange_free(&agent->exchange);
    rc = exchange_make(&agent->exchange);
    if (rc == 0)
      rc = agent_incarnation(agent->name, agent->exchange.public_key, &agent->incarnation);
  } while (rc == 0 && (agent->incarnation == 0 || agent->incarnation == WEFT_PEER_SELF));
  const char *token = agent->options.token;
  agent->seals = token && *token;
  if (rc == 0 && agent->seals)
    rc = secret_derive(token, "weft metadata 1", agent->seal);
  return rc;
}

static void set_up(weft_agent_t *agent) {
  agent->hooks = &hooks;
  agent->life = forked_now();
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&agent->housekeeping, &recursive);
  pthread_mutexattr_destroy(&recursive);
  pthread_mutex_init(&agent->lock, NULL);
  agent_events_open(agent);
  agent_completions_open(agent);
  agent->signal.fd = agent->signal.outer = agent->epoll = agent->wake = -1;
  agent->next_region = 1;
  strcpy(agent->name, agent->options.name);
  agent_identify(agent);
}

// The agent as its own peer.
static void init_self_peer(weft_agent_t *agent) {
  struct agent_peer *self = &agent->self;
  self->id = WEFT_PEER_SELF;
  self->incarnation = agent->incarnation;
  self->mark_in = self->mark_out = random_id();
  memcpy(self->name, agent->name, sizeof self->name);
  for (uint32_t i = 0; i < agent->num_workers; i++)
    self->links[i] = (struct agent_link){.peer = self, .worker = &agent->workers[i]};
  self->messenger = &agent->workers[0];
}

static int start(weft_agent_t *agent, const struct transport *const *more) {
  trace_open();
  int rc = be_born(agent);
  if (rc == 0)
    rc = agent_signal_open(agent);
  if (rc == 0)
    rc = agent_inbox_open(agent);
  if (rc == 0)
    rc = agent_workers_open(agent, more);
  if (rc != 0)
    return rc;
  init_self_peer(agent);
  for (uint32_t i = 0; rc == 0 && i < agent->num_workers; i++)
    rc = agent_metrics_open(&agent->self.links[i]);
  if (rc == 0 && !agent_link_get(&agent->self, agent->self.messenger))
    rc = fail(WEFT_ERR_NOMEM, "%s", agent->self.links[0].why);
  if (rc == 0)
    rc = agent_progress_open(agent);
  if (rc == 0)
    rc = agent_services_open(agent, &agent->options);
  if (rc == 0 && agent->options.progress == WEFT_AGENT_PROGRESS_THREAD)
    rc = agent_progress_start(agent);
  return rc;
}

static void dispose(weft_agent_t *agent) {
  agent_peers_free(agent);
  agent_services_close(agent);
  agent_inbox_free(agent);
  agent_events_close(agent);
  agent_completions_close(agent);
  agent_signal_close(agent);
  agent_progress_close(agent);
  pthread_mutex_destroy(&agent->lock);
  pthread_mutex_destroy(&agent->housekeeping);
  exchange_free(&agent->exchange);
  explicit_bzero(agent->seal, sizeof agent->seal);
  if (agent->options.token)
    explicit_bzero((char *)(uintptr_t)agent->options.token, strlen(agent->options.token));
  free(agent->strings);
  free(agent);
}

int agent_open_with(weft_agent_t **agent, const struct weft_agent_options *given, const struct transport *const *more) {
  struct weft_agent_options copy;
  if (!given)
    return fail(WEFT_ERR_INVALID, "weft_agent_open: options is NULL, but an agent needs a name: pass a struct "
                                  "weft_agent_options that was initialised by WEFT_AGENT_OPTIONS_INIT and has a name");
  const struct weft_agent_options *options = SIZED_READ(given, &copy, token, "weft_agent_options");
  if (!options)
    return sized_refusal(given, sizeof copy);
  int rc =
      agent ? check(options) : fail(WEFT_ERR_INVALID, "weft_agent_open: agent is NULL: pass a place for the handle");
  if (rc != 0)
    return rc;
  weft_agent_t *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for an agent");
  rc = complete(made, options);
  if (rc != 0) {
    free(made);
    return rc;
  }
  ticks_open();
  set_up(made);
  rc = start(made, more);
  if (rc != 0) {
    char why[FAIL_DETAIL_SIZE];
    strncpy(why, weft_last_error(), sizeof why - 1);
    why[sizeof why - 1] = '\0';
    weft_agent_close(made);
    return fail(rc, "%s", why);
  }
  *agent = made;
  return 0;
}

int weft_agent_open(weft_agent_t **agent, const struct weft_agent_options *options) {
  return agent_open_with(agent, options, NULL);
}

static bool is_busy(weft_agent_t *agent) {
  bool busy = atomic_load(&agent->in_flight) > 0;
  for (uint32_t i = 0; !busy && i < agent->peers.count; i++)
    busy = !agent_outgoing_idle(agent->peers.slots[i]);
  return busy || !agent_outgoing_idle(&agent->self);
}

// Makes everything in flight end. If a transport does not end a request in time, its close() does.
static void quiesce(weft_agent_t *agent) {
  uint64_t until = clock_deadline_ms(CLOSE_MS);
  pthread_mutex_lock(&agent->lock);
  for (weft_transfer_t *transfer = agent->transfers; transfer; transfer = transfer->next)
    if (agent_transfer_flies(transfer))
      agent_transfer_stop(transfer, atomic_load(&transfer->number), WEFT_ERR_CANCELED);
  pthread_mutex_unlock(&agent->lock);
  // Messages, a goodbye among them, have a part of the time to leave.
  uint64_t messages_until = clock_deadline_ms(CLOSE_MS / 4);
  bool canceled = false;
  while (is_busy(agent) && !clock_passed(until)) {
    agent_drive(agent);
    if (!canceled && clock_passed(messages_until)) {
      canceled = true;
      for (uint32_t i = 0; i < agent->peers.count; i++)
        agent_outgoing_cancel(agent->peers.slots[i]);
    }
  }
}

static void close_transfers(weft_agent_t *agent, bool all) {
  weft_transfer_t *next;
  for (weft_transfer_t *transfer = agent->transfers; transfer; transfer = next) {
    next = transfer->next;
    if (all || !agent_transfer_flies(transfer))
      agent_transfer_close(transfer);
  }
}

static void tear_all(weft_agent_t *agent, bool all) {
  for (uint32_t i = 0; i <= agent->peers.count; i++) {
    struct agent_peer *peer = i < agent->peers.count ? agent->peers.slots[i] : &agent->self;
    if (!peer->torn && (all || agent_peer_is_quiet(peer)))
      agent_peer_tear(agent, peer);
  }
}

static void close_lists(weft_agent_t *agent) {
  for (uint32_t i = 0; i <= agent->peers.count; i++) {
    struct agent_peer *peer = i < agent->peers.count ? agent->peers.slots[i] : &agent->self;
    while (peer->lists)
      agent_list_close(peer->lists);
  }
}

// In a forked child, the agent's threads do not exist, its locks may be held for ever, and everything that its
// transports share with others belongs to the parent. So only the agent's own memory is freed.
static void forget(weft_agent_t *agent) {
  free(agent->strings);
  free(agent);
}

// First frees everything that can be freed separately. Requests that could not be stopped in time end when their
// transport closes, and are freed after that. Lists and transfers stay, closed, for their owner to free.
void weft_agent_close(weft_agent_t *agent) {
  if (!agent)
    return;
  if (forked_since(agent->life)) {
    forget(agent);
    return;
  }
  agent_services_leave(agent);
  agent_progress_stop(agent);
  quiesce(agent);
  pthread_mutex_lock(&agent->lock);
  for (uint32_t i = 0; i < agent->peers.count; i++) {
    struct agent_peer *peer = agent->peers.slots[i];
    if (peer->state == AGENT_PEER_ALIVE && peer->name[0])
      liveness_peer_changed(agent, peer, WEFT_AGENT_EVENT_PEER_LEFT);
  }
  close_transfers(agent, false);
  tear_all(agent, false);
  agent_workers_close(agent);
  close_transfers(agent, true);
  tear_all(agent, true);
  close_lists(agent);
  pthread_mutex_unlock(&agent->lock);
  dispose(agent);
}
