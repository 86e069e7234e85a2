// The pairs of buffers that a scheme joins; all workers work out the same list.
#ifndef BENCH_TRANSFER_PAIRS_H
#define BENCH_TRANSFER_PAIRS_H

#include "bench/transfer/transfer.h"

// A buffer is one of a worker's, by its number there: 0 with SG.
struct transfer_end {
  uint32_t rank, buffer;
};

// Each pair has an area of its own in both buffers: areas of one buffer lie one behind the other, all of one size.
struct transfer_pair {
  struct transfer_end initiator, target;
  uint32_t initiator_area, target_area; // which of the buffer's
};

struct transfer_pairs {
  struct transfer_pair *list;
  uint32_t count;
};

// NOMEM. `plan` has been settled: the numbers fit the scheme.
int transfer_pairs_make(struct transfer_pairs *pairs, const struct transfer_plan *plan);
void transfer_pairs_free(struct transfer_pairs *pairs);

// Buffers of that worker, and the most areas that one of them has.
uint32_t transfer_pairs_buffers(const struct transfer_plan *plan, uint32_t rank);
uint32_t transfer_pairs_areas(const struct transfer_pairs *pairs, uint32_t rank);
// Whether the worker begins transfers.
bool transfer_pairs_initiates(const struct transfer_pairs *pairs, uint32_t rank);
// How many of `size` workers do. Each has as many of the pairs.
uint32_t transfer_pairs_initiators(const struct transfer_pairs *pairs, uint32_t size);

// INVALID: the numbers do not fit the scheme.
int transfer_pairs_check(const struct transfer_config *config);

#endif
