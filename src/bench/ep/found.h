// The results of one measurement, from all ranks, and the rows made from them.
#ifndef BENCH_EP_FOUND_H
#define BENCH_EP_FOUND_H

#include "bench/ep/board.h"
#include "measure/figures.h"

enum { BENCH_EP_HOST = 64 };

struct bench_ep_found_rank {
  char host[BENCH_EP_HOST];
  uint32_t machine; // ranks with the same number are on one machine, whatever the hosts' names
  struct bench_ep_result result;
  uint64_t *times; // [BENCH_EP_MAX_TIMES][count]
};

struct bench_ep_found {
  uint32_t num_ranks;
  uint32_t count; // iterations
  bool counted;   // `count` is known: from a rank of this host, or from the first rank that reported
  bool stopped;   // a signal on some host stopped the measurement
  struct bench_ep_found_rank *ranks;
};

// Room for so many ranks. NOMEM.
int bench_ep_found_open(struct bench_ep_found *found, uint32_t num_ranks);
void bench_ep_found_free(struct bench_ep_found *found); // leaves it empty

// Copies the results of local rank `index`, as rank number `rank` of all.
int bench_ep_found_take(struct bench_ep_found *found, uint32_t rank, const char *host, struct bench_ep_board *board,
                        uint32_t index);

// Adds the rows of a measurement, one for each requested operation, and returns their number in *num_rows; no rows if
// no iteration was timed.
int bench_ep_add_rows(struct figures *figures, const struct bench_ep_config *config, const struct bench_ep_sweep *sweep,
                      const struct bench_ep_point *point, uint32_t run, const struct bench_ep_found *found,
                      uint32_t *num_rows);

#endif
