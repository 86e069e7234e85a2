// Runs of patterns: each alone, and all in their sequence with the gaps between them. They go in batches of about half
// a second, after each of which every worker tells what it saw, so that little is lost when the benchmark is stopped.
#ifndef BENCH_TRAFFIC_RUN_H
#define BENCH_TRAFFIC_RUN_H

#include "bench/traffic/worker.h"

enum traffic_stage { TRAFFIC_ALONE, TRAFFIC_SEQUENCE, TRAFFIC_PAIRS };

// What one batch was; the same for all workers.
struct traffic_batch {
  enum traffic_stage stage;
  uint32_t pattern;    // ALONE, PAIRS
  uint32_t pair;       // PAIRS
  uint32_t count;      // runs; of SEQUENCE: of all patterns together
  double done;         // of all that is to be done, from 0 to 1
  json_t *const *told; // [workers], what each saw (traffic_report.c knows the format)
};

// The reporter's: takes a batch. An error ends the benchmark.
typedef int traffic_take_fn(void *arg, const struct traffic_batch *batch);

// One repeat of everything: each pattern alone, each pair alone where that is asked for, then the sequence. All workers
// call it together; `take` is NULL but for the reporter. DATA: wrong bytes; PEER_LOST, TIMEOUT, CANCELED.
int traffic_run_all(struct traffic_worker *worker, uint32_t repeat, traffic_take_fn *take, void *arg);

#endif
