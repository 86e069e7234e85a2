// The hooks by which the agent's core reaches metadata and liveness, and metadata by hand.
#include "agent/metadata/hooks.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum { WHEEL_TICKS = 64 }; // of the time between heartbeats

void meta_timer_set(struct agent_meta *meta, struct meta_timer *timer, uint64_t due_ns) {
  wheel_set(&meta->wheel, &timer->timer, due_ns);
}

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

// --- by hand ---

int weft_agent_metadata(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                        void *blob, size_t *size) {
  if (!agent || !size)
    return fail(WEFT_ERR_INVALID, "%s is NULL", agent ? "size" : "agent");
  if (num_regions > 0 && !regions)
    return fail(WEFT_ERR_INVALID, "regions is NULL, and there are %u", num_regions);
  struct agent_description *description;
  int err = agent_describe(agent, num_regions > 0 ? regions : NULL, num_regions, with_addresses, &description);
  if (err)
    return err;
  err = agent_blob_write(description, agent_seal(agent), blob, size);
  free(description);
  return err;
}

int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer) {
  if (!agent || !blob || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", !agent ? "agent" : !blob ? "blob" : "peer");
  struct agent_description *description;
  int err = agent_blob_read(blob, size, agent_seal(agent), &description);
  if (err)
    return err;
  err = agent_adopt(agent, description, 0, peer);
  free(description);
  return err;
}
