// Runs of patterns: each alone, and all in their sequence with the gaps between them. Runs are grouped into batches of
// about half a second. After each batch every worker reports its measurements, so that little is lost if the benchmark
// is stopped.
#ifndef BENCH_TRAFFIC_RUN_H
#define BENCH_TRAFFIC_RUN_H

#include "bench/traffic/worker.h"

enum traffic_stage { TRAFFIC_ALONE, TRAFFIC_SEQUENCE, TRAFFIC_PAIRS };

// The description of a batch; the same for all workers.
struct traffic_batch {
  enum traffic_stage stage;
  uint32_t pattern;       // ALONE, PAIRS
  uint32_t pair;          // PAIRS
  uint32_t count;         // runs; SEQUENCE: of all patterns together
  double done;            // completed part of all work, from 0 to 1
  json_t *const *reports; // [workers], the report of each worker (book.c reads it)
};

// Called on the reporter for each batch. An error ends the benchmark.
typedef int traffic_take_fn(void *arg, const struct traffic_batch *batch);

// Runs one repeat of everything: each pattern alone, each pair alone if requested, then the sequence. All workers call
// it together; `take` is NULL except on the reporter. DATA: wrong bytes; PEER_LOST, TIMEOUT, CANCELED.
int traffic_run_all(struct traffic_worker *worker, uint32_t repeat, traffic_take_fn *take, void *arg);

#endif
