// The agent's metrics over HTTP.
#include <stdio.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/services.h"
#include "base/fail.h"
#include "metrics/server.h"

static void write_all(void *arg, struct text *text) {
  agent_metrics_write(arg, text);
}

// Returns whether they are served already, or about to be.
static bool take_place(struct agent_services *services) {
  pthread_mutex_lock(&services->agent->housekeeping);
  bool taken = services->serves_metrics;
  services->serves_metrics = true;
  pthread_mutex_unlock(&services->agent->housekeeping);
  return taken;
}

// NULL: it could not be opened.
static void keep(struct agent_services *services, struct metrics_server *server) {
  pthread_mutex_lock(&services->agent->housekeeping);
  services->metrics_server = server;
  services->serves_metrics = server != NULL;
  pthread_mutex_unlock(&services->agent->housekeeping);
}

int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!address)
    return fail(WEFT_ERR_INVALID, "address is NULL");
  char of[WEFT_AGENT_MAX_NAME + 8];
  snprintf(of, sizeof of, "agent %s", agent->name);
  const struct metrics_source source = {.of = of, .token = agent->options.token, .write = write_all, .arg = agent};
  if (take_place(agent->services))
    return fail(WEFT_ERR_EXISTS, "agent %s serves its metrics already", agent->name);
  struct metrics_server *server = NULL;
  int err = metrics_server_open(&source, address, port, &server); // which may look a name up, and take its time
  keep(agent->services, server);
  return err;
}

int weft_agent_metrics_bearer(weft_agent_t *agent, char *out, size_t cap, size_t *size) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!size || (cap > 0 && !out))
    return fail(WEFT_ERR_INVALID, "%s is NULL", !size ? "size" : "text");
  if (!agent->seals)
    return fail(WEFT_ERR_NOT_FOUND, "agent %s has no token, so anybody can read its metrics", agent->name);
  *size = METRICS_BEARER + 1;
  if (cap == 0)
    return 0;
  return cap < *size ? fail(WEFT_ERR_ROOM, "the bearer takes %zu bytes, but there is room for %zu", *size, cap)
                     : metrics_bearer(agent->options.token, out);
}

void agent_metrics_server_close(struct agent_services *services) {
  pthread_mutex_lock(&services->agent->housekeeping);
  struct metrics_server *server = services->metrics_server;
  services->metrics_server = NULL;
  pthread_mutex_unlock(&services->agent->housekeeping);
  metrics_server_close(server);
}
