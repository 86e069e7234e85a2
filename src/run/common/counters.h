// Counters of the ranks of a node, in memory that the node makes. Each rank process writes its counters there, and the
// metrics server reads them. A rank that is launched again continues with the values of its predecessor, so no counter
// decreases.
#ifndef RUN_COMMON_COUNTERS_H
#define RUN_COMMON_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include <weft/ep.h>

#include "metrics/histogram.h"

enum { RUN_STATS = 11 }; // fields of struct weft_ep_stats behind its size

// The counters of one rank. All accesses are relaxed; one process writes at a time.
struct run_counters {
  _Atomic uint64_t used; // the rank has run on this node
  _Atomic uint64_t stats[RUN_STATS];
  _Atomic uint64_t stall_ns; // longest dispatch or combine while views changed, in the last phase with a change
  struct metrics_histogram dispatch, combine;
};

// Makes [count] zeroed counters in memory with a descriptor. LIMIT, NOMEM, SYSTEM.
int run_counters_make(uint32_t count, int *fd, struct run_counters **counters);
// Maps the counters of a descriptor from run_counters_make(), in another process. The descriptor may be closed
// afterwards. PROTOCOL: the memory has another size.
int run_counters_map(int fd, uint32_t count, struct run_counters **counters);
void run_counters_unmap(struct run_counters *counters, uint32_t count); // NULL is legal

// The counters of this process: `before` has the values counted by its predecessors.
struct run_counting {
  struct run_counters *to; // NULL: not requested
  uint64_t before[RUN_STATS];
};
void run_counting_begin(struct run_counting *counting, struct run_counters *to);
// To be called when an operation has ended. `stats`: the statistics of this process since it opened the group.
void run_counting_operation(struct run_counting *counting, uint64_t dispatch_ns, uint64_t combine_ns,
                            const struct weft_ep_stats *stats);

// Copies the counters into a struct weft_ep_stats.
void run_counters_stats(const struct run_counters *counters, struct weft_ep_stats *stats);

#endif
