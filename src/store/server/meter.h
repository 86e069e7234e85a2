// Counts the requests of an embedded server, without a lock.
#ifndef STORE_SERVER_METER_H
#define STORE_SERVER_METER_H

#include <stdatomic.h>
#include <stdint.h>

#include "metrics/histogram.h"

enum { SERVER_CALLS = 11 }; // calls of the gateway; the last one counts all other paths

struct server_meter {
  _Atomic uint64_t calls[SERVER_CALLS];
  _Atomic uint64_t strangers;     // requests without a token where one is required
  struct metrics_histogram times; // from the complete request to its answer; for a watch, to its beginning
};

// The index of the call for a path.
uint32_t server_meter_call(const char *path);

#endif
