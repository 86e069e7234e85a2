// A real etcd, through the client, as the kind of store under test.
#include "conformance/kind.h"
#include "support/etcd.h"

static struct support_etcd etcd;

static bool start(void) {
  support_etcd_require();
  return support_etcd_start(&etcd);
}

static void stop(void) {
  support_etcd_stop(&etcd);
}

static int open_client(weft_store_t **store) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = etcd.url;
  options.request_timeout_ms = 30000;
  return weft_store_open(store, &options);
}

static uint16_t port(void) {
  return etcd.port;
}

static bool restart_empty(void) {
  return support_etcd_restart(&etcd, false);
}

const struct kind kind = {.name = "etcd",
                          .start = start,
                          .stop = stop,
                          .open = open_client,
                          .scheme = "http",
                          .port = port,
                          .restart_empty = restart_empty};
