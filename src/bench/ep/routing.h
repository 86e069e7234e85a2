// Which experts the tokens of a rank select: a function of (seed, rank, point), so that every rank can make every
// other's, and the same in each operation of a measurement. [any] thread: no state of its own.
#ifndef BENCH_EP_ROUTING_H
#define BENCH_EP_ROUTING_H

#include <stdint.h>

#include "bench/ep/ep.h"

struct bench_ep_routing; // the popularity of each expert

// INVALID: more top-k than experts. NOMEM.
int bench_ep_routing_open(struct bench_ep_routing **routing, const struct bench_ep_point *point, uint64_t seed);
void bench_ep_routing_close(struct bench_ep_routing *routing); // NULL is legal

// Of `rank`: experts [T][K], the K of a token distinct, and weights [T][K] from 1/8 to 1.
void bench_ep_routing_fill(const struct bench_ep_routing *routing, int32_t rank, int64_t *topk_idx, float *weights);

// The expert that a hot skew makes hot, or that a Zipf skew makes the most popular: which one it is, the seed says.
int64_t bench_ep_routing_hottest(const struct bench_ep_routing *routing);

#endif
