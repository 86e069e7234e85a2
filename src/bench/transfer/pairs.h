// The pairs of buffers that a scheme connects; all workers compute the same list.
#ifndef BENCH_TRANSFER_PAIRS_H
#define BENCH_TRANSFER_PAIRS_H

#include "bench/transfer/transfer.h"

// A buffer of a worker, by its number at that worker: 0 with SG.
struct transfer_end {
  uint32_t rank, buffer;
};

// Each pair has its own area in both buffers. The areas of a buffer lie one after the other and have the same size.
struct transfer_pair {
  struct transfer_end initiator, target;
  uint32_t initiator_area, target_area; // number of the area in the buffer
};

struct transfer_pairs {
  struct transfer_pair *list;
  uint32_t count;
};

// NOMEM. `plan` must have been settled: the numbers fit the scheme.
int transfer_pairs_make(struct transfer_pairs *pairs, const struct transfer_plan *plan);
void transfer_pairs_free(struct transfer_pairs *pairs);

// The number of that worker's buffers, and the largest number of areas in one of them.
uint32_t transfer_pairs_buffers(const struct transfer_plan *plan, uint32_t rank);
uint32_t transfer_pairs_areas(const struct transfer_pairs *pairs, uint32_t rank);
// Whether the worker begins transfers.
bool transfer_pairs_initiates(const struct transfer_pairs *pairs, uint32_t rank);
// How many of `size` workers begin transfers. Each of them has the same number of pairs.
uint32_t transfer_pairs_initiators(const struct transfer_pairs *pairs, uint32_t size);

// INVALID: the numbers do not fit the scheme.
int transfer_pairs_check(const struct transfer_config *config);

#endif
