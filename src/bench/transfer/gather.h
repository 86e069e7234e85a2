// Collects the measurements of all workers.
#ifndef BENCH_TRANSFER_GATHER_H
#define BENCH_TRANSFER_GATHER_H

#include "bench/transfer/row.h"
#include "bench/transfer/window.h"

// The minimum and maximum of all times, also of times that are not in the arrays.
struct transfer_range {
  uint64_t least, most;
};

struct transfer_gathered {
  struct transfer_times times; // of all initiators by turns, the same number of each
  struct transfer_range latency, post, transfer, prep;
  double gbps;       // 1e9 bytes a second, of the window in which all initiators moved
  double per_second; // requests a second that ended in the window
  double window_s;
  bool again;                             // initiators hardly moved at the same time: the row has to be measured again
  char held_up[256];                      // why the window's figures do not represent all initiators; or "" (window.h)
  double cpu_percent, target_cpu_percent; // means over initiators and over targets, in percent of one processor
  uint32_t slowest;                       // the rank that moved the fewest bytes a second
  double slowest_gbps, fastest_gbps;
  char transport[16];
};

// To be called by all workers together. `own`: result of this worker. Only rank 0 gets all results; on other ranks
// `*all` contains only the data of the window.
int transfer_gather(struct transfer_worker *worker, const struct transfer_result *own, struct transfer_gathered *all);
// Merges the lists `name` of what the workers said by turns, since the workers moved at the same time: the first time
// of each, then the second of each, and so on. A worker may have fewer, or none. NOMEM; the caller frees `*values`.
int transfer_gather_merge(uint64_t **values, size_t *count, json_t *const *said, uint32_t size, const char *name);
void transfer_gathered_free(struct transfer_gathered *all);

#endif
