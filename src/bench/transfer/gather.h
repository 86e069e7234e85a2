// What all workers have measured, brought together.
#ifndef BENCH_TRANSFER_GATHER_H
#define BENCH_TRANSFER_GATHER_H

#include "bench/transfer/row.h"
#include "bench/transfer/window.h"

// The least and the most of all times, also of those that are not in the arrays.
struct transfer_range {
  uint64_t least, most;
};

struct transfer_gathered {
  struct transfer_times times; // of all initiators, one after the other, as many of each
  struct transfer_range latency, post, transfer, prep;
  double gbps;       // 1e9 bytes a second, of the window in which all initiators moved
  double per_second; // requests that ended in it
  double window_s;
  bool again;                             // initiators hardly moved at the same time: measure it once more
  char held_up[256];                      // why the figures of the window are not those of all; or "" (window.h)
  double cpu_percent, target_cpu_percent; // the means of initiators and of targets, of one processor
  uint32_t slowest;                       // the rank that moved the fewest bytes a second
  double slowest_gbps, fastest_gbps;
  char transport[16];
};

// In step with the others. `own` is this worker's. Only rank 0 gets the outcome; elsewhere `*all` has what is of the
// window.
int transfer_gather(struct transfer_worker *worker, const struct transfer_result *own, struct transfer_gathered *all);
void transfer_gathered_free(struct transfer_gathered *all);

#endif
