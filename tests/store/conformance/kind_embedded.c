#include "conformance/kind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_store_server_t *server;

static bool start_on(uint16_t port) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.port = port;
  if (weft_store_server_start(&server, &options) == 0)
    return true;
  fprintf(stderr, "embedded server: %s\n", weft_last_error());
  return false;
}

static bool start(void) {
  return start_on(0);
}

static void stop(void) {
  weft_store_server_stop(server);
  server = NULL;
}

static int open_client(weft_store_t **store) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = weft_store_server_url(server);
  options.request_timeout_ms = 30000;
  return weft_store_open(store, &options);
}

static uint16_t port(void) {
  return (uint16_t)strtoul(strrchr(weft_store_server_url(server), ':') + 1, NULL, 10);
}

static bool restart_empty(void) {
  uint16_t same = port();
  stop();
  return start_on(same);
}

const struct kind kind = {"embedded", start, stop, open_client, port, restart_empty};
