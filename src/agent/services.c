// Services of an agent beside its transfers: liveness of peers, exchange of metadata, metrics. They are opened last and
// closed first.
#include "agent/services.h"
#include "agent/agent.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum { WHEEL_TICKS = 64 }; // of the time between heartbeats

static uint64_t wheel_tick_ns(const struct weft_agent_options *options) {
  uint64_t ns = (uint64_t)options->heartbeat_ms * 1000000u / WHEEL_TICKS;
  return ns < 1000000 ? 1000000 : ns > 100000000 ? 100000000 : ns;
}

int agent_services_open(weft_agent_t *agent, const struct weft_agent_options *options) {
  struct agent_services *services = calloc(1, sizeof *services);
  if (!services)
    return fail(WEFT_ERR_NOMEM, "no memory for agent %s", agent->name);
  uint64_t now = clock_ns();
  services->agent = agent;
  services->last_tick_ns = now;
  wheel_init(&services->wheel, wheel_tick_ns(&agent->options), now);
  pthread_mutex_init(&services->store_thread_lock, NULL);
  agent->services = services;
  return socket_exchange_open(services, options);
}

void agent_services_leave(weft_agent_t *agent) {
  struct agent_services *services = agent->services;
  if (!services)
    return;
  agent_metrics_server_close(services);
  store_thread_leave(services);
  pthread_mutex_lock(&agent->housekeeping);
  liveness_send_goodbyes(services);
  socket_exchange_leave(services);
  pthread_mutex_unlock(&agent->housekeeping);
}

void agent_services_close(weft_agent_t *agent) {
  struct agent_services *services = agent->services;
  if (!services)
    return;
  agent_metrics_server_close(services);
  store_thread_close(services);
  pthread_mutex_lock(&agent->housekeeping);
  socket_exchange_close(services);
  liveness_close(services);
  pthread_mutex_unlock(&agent->housekeeping);
  pthread_mutex_destroy(&services->store_thread_lock);
  free(services->gone);
  free(services);
  agent->services = NULL;
}

uint64_t agent_services_tick(weft_agent_t *agent, uint64_t now_ns) {
  struct agent_services *services = agent->services;
  if (!services)
    return UINT64_MAX;
  if (atomic_exchange(&services->regions_changed, false)) {
    socket_exchange_update(services);
    services->gone_due = true;
  }
  if (services->gone_due)
    liveness_send_regions_gone(services);
  socket_exchange_tick(services);
  return liveness_tick(services, now_ns);
}

void agent_services_regions_changed(weft_agent_t *agent) {
  struct agent_services *services = agent->services;
  if (!services)
    return;
  store_thread_update(services);
  if (!atomic_exchange(&services->regions_changed, true))
    agent_wake(agent);
}
