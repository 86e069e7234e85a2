// What an agent runs beside its transfers: liveness of peers, exchange of metadata, metrics. Opened last, closed first.
#include "agent/services.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum { WHEEL_TICKS = 64 }; // of the time between heartbeats

static uint64_t wheel_tick_ns(const struct weft_agent_options *options) {
  uint64_t ns = (uint64_t)options->heartbeat_ms * 1000000u / WHEEL_TICKS;
  return ns < 1000000 ? 1000000 : ns > 100000000 ? 100000000 : ns;
}

int agent_meta_open(weft_agent_t *agent, const struct weft_agent_options *options) {
  struct agent_meta *meta = calloc(1, sizeof *meta);
  if (!meta)
    return fail(WEFT_ERR_NOMEM, "no memory for agent %s", agent->name);
  uint64_t now = clock_ns();
  meta->agent = agent;
  meta->last_tick_ns = now;
  wheel_init(&meta->wheel, wheel_tick_ns(&agent->options), now);
  pthread_mutex_init(&meta->keeper_lock, NULL);
  agent->meta = meta;
  return meet_open(meta, options);
}

void agent_meta_leave(weft_agent_t *agent) {
  struct agent_meta *meta = agent->meta;
  if (!meta)
    return;
  metrics_server_close(meta);
  keeper_leave(meta);
  pthread_mutex_lock(&agent->tending);
  meet_leave(meta);
  tell_goodbye(meta);
  pthread_mutex_unlock(&agent->tending);
}

void agent_meta_close(weft_agent_t *agent) {
  struct agent_meta *meta = agent->meta;
  if (!meta)
    return;
  metrics_server_close(meta);
  keeper_close(meta);
  pthread_mutex_lock(&agent->tending);
  meet_close(meta);
  liveness_close(meta);
  pthread_mutex_unlock(&agent->tending);
  pthread_mutex_destroy(&meta->keeper_lock);
  free(meta->gone);
  free(meta);
  agent->meta = NULL;
}

uint64_t agent_meta_tick(weft_agent_t *agent, uint64_t now_ns) {
  struct agent_meta *meta = agent->meta;
  if (!meta)
    return UINT64_MAX;
  if (atomic_exchange(&meta->regions_changed, false)) {
    meet_update(meta);
    tell_gone(meta);
  }
  meet_tick(meta);
  return liveness_tick(meta, now_ns);
}

void agent_meta_regions(weft_agent_t *agent) {
  struct agent_meta *meta = agent->meta;
  if (!meta)
    return;
  keeper_update(meta);
  if (!atomic_exchange(&meta->regions_changed, true))
    agent_wake(agent);
}
