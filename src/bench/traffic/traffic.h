// `weft bench traffic`: patterns of traffic between workers, measured alone and in their sequence.
#ifndef BENCH_TRAFFIC_TRAFFIC_H
#define BENCH_TRAFFIC_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/common/options.h"
#include "bench/traffic/pattern.h"

struct traffic_config {
  const struct bench_options *options;
  const struct traffic_plan *plan;
  uint32_t workers; // number of all workers, at least the rows of the largest matrix
  uint32_t local;   // processes of this host
  uint32_t iterations, warmup;
  uint32_t alone; // runs of each pattern by itself; 0: none
  uint64_t seed;
  enum traffic_memory memory; // of patterns that name none
  const char *transport;      // NULL: the cheapest
  bool check, isolate_pairs;
  bool show_workers, show_pairs; // show their rows in the table and in CSV; JSON always has them
  bool color, unicode;
  size_t width; // of the terminal
};

// Runs the benchmark, and writes the figures to the outputs of the options. To be called before there is a thread.
// `*status`: the exit status if it returns 0; 1 if a figure was refused. DATA: wrong bytes; PEER_LOST names the worker
// that died; CANCELED: a signal came, and everything measured until then is written.
int traffic_bench(const struct traffic_config *config, int *status);

#endif
