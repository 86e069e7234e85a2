// Counts the requests of an embedded server, without a lock.
#ifndef STORE_SERVER_METER_H
#define STORE_SERVER_METER_H

#include <stdatomic.h>
#include <stdint.h>

#include "metrics/histogram.h"

enum { SERVER_CALLS = 11 }; // of the gateway, the last one for all other paths

struct server_meter {
  _Atomic uint64_t calls[SERVER_CALLS];
  _Atomic uint64_t strangers;     // requests that showed no token where one is wanted
  struct metrics_histogram times; // from a whole request to its answer; of a watch: to its beginning
};

// Which call a path is.
uint32_t server_meter_call(const char *path);

#endif
