// Counters of the ranks of a node: memory that the node makes, each rank process counts in, and the server of metrics
// reads. A rank that comes again goes on where its predecessor stopped, so no counter falls.
#ifndef RUN_COMMON_COUNTERS_H
#define RUN_COMMON_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include <weft/ep.h>

#include "metrics/histogram.h"

enum { RUN_STATS = 11 }; // fields of struct weft_ep_stats behind its size

// Of one rank; all of it relaxed, written by one process at a time.
struct run_counters {
  _Atomic uint64_t used; // its rank has run here
  _Atomic uint64_t stats[RUN_STATS];
  _Atomic uint64_t stall_ns; // the longest dispatch or combine while views changed, of the last phase that changed them
  struct metrics_histogram dispatch, combine;
};

// [count] of them, zero, in memory of a descriptor. LIMIT, NOMEM, SYSTEM.
int run_counters_make(uint32_t count, int *fd, struct run_counters **counters);
// Those of a descriptor that run_counters_make() made, in another process; it may be closed afterwards. PROTOCOL: it is
// of another size.
int run_counters_map(int fd, uint32_t count, struct run_counters **counters);
void run_counters_unmap(struct run_counters *counters, uint32_t count); // NULL is legal

// What the process counts in: `before` is what was counted by others.
struct run_counting {
  struct run_counters *to; // NULL: nobody asks
  uint64_t before[RUN_STATS];
};
void run_counting_begin(struct run_counting *counting, struct run_counters *to);
// An operation has ended; `stats` are this process' own, since it opened.
void run_counting_operation(struct run_counting *counting, uint64_t dispatch_ns, uint64_t combine_ns,
                            const struct weft_ep_stats *stats);

// As a struct again.
void run_counters_stats(const struct run_counters *counters, struct weft_ep_stats *stats);

#endif
