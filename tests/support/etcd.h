// A real etcd for tests, on free ports. It ends with the test that started it, in whatever way the test ends; its
// directory remains only if the test crashed.
#ifndef SUPPORT_ETCD_H
#define SUPPORT_ETCD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct support_etcd {
  pid_t pid; // 0: not running
  uint16_t port;
  uint16_t peer_port;
  char directory[96]; // of the data and the log
  char url[64];
  const char *scheme;       // in, before the start: "http" or "https"; NULL: "http"
  const char *const *extra; // in: more arguments, with NULL at the end; may be NULL
};

// Whether etcd is installed. If not: exits with 77 when WEFT_TEST_SKIP_ETCD is 1, with 1 and a message otherwise.
void support_etcd_require(void);

// Starts etcd with an empty store and waits until it serves. On a failure it prints the reason, leaves nothing behind,
// and returns false.
bool support_etcd_start(struct support_etcd *etcd);

// Kills it and starts it again on the same ports, with its data or without.
bool support_etcd_restart(struct support_etcd *etcd, bool keep_data);

// Kills it and removes its directory. Does nothing when it was not started.
void support_etcd_stop(struct support_etcd *etcd);

// Posts a request that libweft has no call for to an etcd at `url`. False, with a message: the answer is not 200.
bool support_etcd_post(const char *url, const char *path, const char *body);

#endif
