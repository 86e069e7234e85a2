// A real etcd, which keeps its keys when it is killed.
#include "store/impatient/server.h"

#include "support/etcd.h"
#include <signal.h>
#include <stddef.h>

static struct support_etcd etcd;

static bool start(uint64_t drawn) {
  (void)drawn;
  support_etcd_require();
  // An etcd that is killed before its first write may never have a leader again.
  return support_etcd_start(&etcd) && support_etcd_post(etcd.url, "/v3/kv/put", "{\"key\":\"Zmlyc3Q=\"}");
}

static bool start_again(enum server_end end) {
  (void)end;
  return support_etcd_restart(&etcd, true);
}

static void freeze(bool frozen) {
  kill(etcd.pid, frozen ? SIGSTOP : SIGCONT);
}

static void stop(void) {
  support_etcd_stop(&etcd);
}

static uint16_t port(void) {
  return etcd.port;
}

static const char *scheme(void) {
  return "http";
}

static const char *token(void) {
  return NULL;
}

int server_be(const char *port_text) {
  (void)port_text;
  return 1;
}

const struct server_kind server_kind = {.name = "etcd",
                                        .keeps = true,
                                        .start = start,
                                        .start_again = start_again,
                                        .freeze = freeze,
                                        .stop = stop,
                                        .port = port,
                                        .scheme = scheme,
                                        .token = token};
