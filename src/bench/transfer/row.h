// One row of the sweep: a block size, a batch, a back end; and what a worker found.
#ifndef BENCH_TRANSFER_ROW_H
#define BENCH_TRANSFER_ROW_H

#include <sys/resource.h>

#include "bench/transfer/worker.h"

struct transfer_row {
  const struct transfer_backend *backend;
  uint64_t block, batch;
  uint32_t run; // of the repeats
};

// Times in ns; arrays are the worker's, in the order of time within each thread.
struct transfer_times {
  uint64_t *latency, *post, *transfer, *prep;
  size_t count, num_post, num_prep; // of latency; of post and of transfer, which may be fewer; of prep
};

struct transfer_result {
  bool initiates;
  uint64_t begin_ns, end_ns; // of the timed loop, by this host's clock
  bool blind;                // of a second loop, of as many iterations, that looked at no clock
  uint64_t iterations;       // in it, of all threads
  uint64_t bytes;            // of an iteration
  double cpu_percent;        // of one processor
  char transport[16];
  struct transfer_times times;
  uint64_t *ends; // [times.count] by this host's clock: which iterations ended in a window
};

// A row that runs.
struct transfer_rowing {
  struct transfer_worker *worker;
  const struct transfer_row *row;
  struct transfer_load load;
  bool initiates, only_initiator;
  struct transfer_lane *lanes; // [num_lanes] of an initiator, one for each thread
  uint32_t num_lanes;
  uint64_t start_ns, wall_ns; // when the windows of all began, and how long this worker's was
  struct rusage before;
  double cpu_us; // in it
};

// Runs the row on this worker, in step with the others. `*result` is the caller's to free. DATA: what was moved is
// wrong.
int transfer_row_run(struct transfer_worker *worker, const struct transfer_row *row, struct transfer_result *result);

// --- result.c ---

// What the lanes have measured.
int transfer_result_take(const struct transfer_rowing *rowing, struct transfer_result *result);
void transfer_result_free(struct transfer_result *result);

// --- check.c: contents ---

// Before the timed loop: puts contents where they are read from. With check_consistency they are new ones, else they
// are only put where nothing could be read without.
int transfer_check_begin(struct transfer_rowing *rowing);
// After it, with check_consistency: looks at all that was moved, at the side that holds it; then moves other contents
// some times more, and looks again. In step with the other workers. DATA.
int transfer_check_end(struct transfer_rowing *rowing);

#endif
