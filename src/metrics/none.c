// Replaces the server if libmicrohttpd was not found at build time.
#include "base/fail.h"
#include "metrics/server.h"

int metrics_server_open(const struct metrics_source *source, const char *address, uint16_t *port,
                        struct metrics_server **server) {
  (void)source, (void)address, (void)port, (void)server;
  return fail(WEFT_ERR_UNSUPPORTED,
              "this build cannot serve metrics, because it has no libmicrohttpd (libmicrohttpd-dev)");
}

void metrics_server_close(struct metrics_server *server) {
  (void)server;
}
