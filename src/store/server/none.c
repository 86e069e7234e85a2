// Replaces the embedded server if libmicrohttpd was not found at build time.
#include "base/fail.h"
#include "store/server/metrics.h"
#include <weft/store.h>

int weft_store_server_start(weft_store_server_t **server, const struct weft_store_server_options *options) {
  (void)server, (void)options;
  return fail(WEFT_ERR_UNSUPPORTED, "this build has no embedded server, because it has no libmicrohttpd: use an etcd");
}

const char *weft_store_server_url(const weft_store_server_t *server) {
  (void)server;
  return "";
}

const char *weft_store_server_token(const weft_store_server_t *server) {
  (void)server;
  return "";
}

void weft_store_server_stop(weft_store_server_t *server) {
  (void)server;
}

void server_metrics_write(weft_store_server_t *server, struct text *text) {
  (void)server;
  text->failed = true; // there is no server
}
