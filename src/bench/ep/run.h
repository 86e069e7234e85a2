// A whole benchmark of EP: its ranks, its store, its measurements by turns, and its document.
#ifndef BENCH_EP_RUN_H
#define BENCH_EP_RUN_H

#include "bench/ep/lead.h"

// Where results and news go. `begun` and `row` may fail: then the benchmark ends.
struct bench_ep_sink {
  int (*begun)(void *arg, struct figures *figures);                              // settings and hosts stand in it
  int (*row)(void *arg, struct figures *figures, const struct figures_row *row); // a new one, the last
  void (*progress)(void *arg, uint32_t measurement, uint32_t of, double part);   // `part` of it done, 0 to 1
  bool (*stopped)(void *arg);                                                    // a signal has come
  void *arg;
};

// Runs it. The figures are complete or say what cut them short, and hold what was measured, also where this fails:
// PEER_LOST names a rank that died, INVALID an option that is wrong. The figures are the caller's to free.
int bench_ep_run(struct bench_ep_config *config, uint32_t repeat, const struct bench_ep_sink *sink,
                 struct figures *figures);

#endif
