// The experts that the tokens of a rank select. They are a function of (seed, rank, point), so that every rank can
// compute the selections of every other rank, and they are the same in each operation of a measurement. [any] The
// functions have no state of their own.
#ifndef BENCH_EP_ROUTING_H
#define BENCH_EP_ROUTING_H

#include <stdint.h>

#include "bench/ep/ep.h"

struct bench_ep_routing; // the popularity of each expert

// INVALID: more top-k than experts. NOMEM.
int bench_ep_routing_open(struct bench_ep_routing **routing, const struct bench_ep_point *point, uint64_t seed);
void bench_ep_routing_close(struct bench_ep_routing *routing); // NULL is legal

// For `rank`: experts [T][K], distinct for each token, and weights [T][K] from 1/8 to 1.
void bench_ep_routing_fill(const struct bench_ep_routing *routing, int32_t rank, int64_t *topk_idx, float *weights);

// The hot expert of a hot skew, or the most popular expert of a Zipf skew; it depends on the seed.
int64_t bench_ep_routing_hottest(const struct bench_ep_routing *routing);

#endif
