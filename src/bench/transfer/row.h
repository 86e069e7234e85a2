// One row of the sweep (a block size, a batch, a back end), and the measurements of a worker.
#ifndef BENCH_TRANSFER_ROW_H
#define BENCH_TRANSFER_ROW_H

#include <sys/resource.h>

#include "bench/transfer/worker.h"

struct transfer_row {
  const struct transfer_backend *backend;
  uint64_t block, batch;
  uint32_t run; // of the repeats
};

// Times in ns of one worker; the arrays have the first iterations of all threads, then their second ones, and so on.
struct transfer_times {
  uint64_t *latency, *post, *transfer, *prep;
  size_t count, num_post, num_prep; // numbers of times: latency; post and transfer, which may be fewer; prep
};

struct transfer_result {
  bool initiates;
  uint64_t begin_ns, end_ns; // of the timed loop, by this host's clock
  bool blind;                // begin and end are those of a second loop of the same length that reads no clock
  uint64_t iterations;       // iterations of all threads in this time
  uint64_t bytes;            // of an iteration
  double cpu_percent;        // of one processor
  char transport[16];
  struct transfer_times times;
  uint64_t *ends; // [times.count] ends by this host's clock, to find the iterations that ended in a window
};

// A row that is being run.
struct transfer_rowing {
  struct transfer_worker *worker;
  const struct transfer_row *row;
  struct transfer_load load;
  bool initiates, only_initiator;
  struct transfer_lane *lanes; // [num_lanes] lanes of an initiator, one for each thread
  uint32_t num_lanes;
  uint64_t start_ns, wall_ns; // common start of all workers' windows, and length of this worker's window
  struct rusage before;
  double cpu_us; // processor time in the window
};

// Runs the row on this worker, together with the others. The caller frees `*result`. DATA: wrong bytes were moved.
int transfer_row_run(struct transfer_worker *worker, const struct transfer_row *row, struct transfer_result *result);

// --- result.c ---

// Takes the measurements from the lanes.
int transfer_result_take(const struct transfer_rowing *rowing, struct transfer_result *result);
void transfer_result_free(struct transfer_result *result);

// --- check.c: contents ---

// Before the timed loop: writes contents to where they are read from. With check_consistency the contents are new;
// otherwise they are written only where reading would fail without them.
int transfer_check_begin(struct transfer_rowing *rowing);
// After the timed loop, with check_consistency: checks all moved bytes on the side that holds them; then moves other
// contents a few more times and checks again. All workers call it together. DATA.
int transfer_check_end(struct transfer_rowing *rowing);

#endif
