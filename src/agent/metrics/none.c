// Stands in where libmicrohttpd was not found at build time.
#include "agent/agent.h"
#include "agent/services.h"
#include "base/fail.h"

int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port) {
  (void)agent, (void)address, (void)port;
  return fail(WEFT_ERR_UNSUPPORTED, "this build cannot serve metrics, for want of libmicrohttpd (libmicrohttpd-dev)");
}

int weft_agent_metrics_bearer(weft_agent_t *agent, char *text, size_t cap, size_t *size) {
  (void)agent, (void)text, (void)cap, (void)size;
  return fail(WEFT_ERR_UNSUPPORTED, "this build cannot serve metrics, for want of libmicrohttpd (libmicrohttpd-dev)");
}

void metrics_server_close(struct agent_services *services) {
  (void)services;
}
