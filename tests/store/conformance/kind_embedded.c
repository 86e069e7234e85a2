// The embedded server, through the client, as the kind of store under test.
#include "conformance/kind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As it is by default, with a token and TLS; with KIND_INSECURE without either.
#ifdef KIND_INSECURE
#define NAME   "embedded, insecure"
#define SCHEME "http"
#define TOKEN  NULL
#else
#define NAME   "embedded"
#define SCHEME "https"
#define TOKEN  "3fd2f4b0c1a6e58d97b2048c6de17a35" // the same after a restart
#endif

static weft_store_server_t *server;

static bool start_on(uint16_t port) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.port = port;
  options.token = TOKEN;
  options.flags = !options.token ? WEFT_STORE_SERVER_INSECURE : 0;
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
  options.token = TOKEN;
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

const struct kind kind = {.name = NAME,
                          .start = start,
                          .stop = stop,
                          .open = open_client,
                          .scheme = SCHEME,
                          .token = TOKEN,
                          .port = port,
                          .restart_empty = restart_empty};
