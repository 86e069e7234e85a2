// Skewed selections of experts.
//
// A Zipf skew has a weight for each rank in popularity. The seed shuffles which expert has which of these ranks: so
// popular experts are spread over the processes, as in a model. A token draws its K experts one after the other by
// these weights. If it draws an expert that it already has, it draws again. This gives the same chances as K draws
// without replacement.
#include "bench/ep/routing.h"

#include <math.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/random.h"

// At most so many draws of an expert; afterwards the token takes the most popular one that it does not have.
enum { DRAWS = 64 };

struct bench_ep_routing {
  struct bench_ep_point point;
  uint64_t seed;
  uint32_t count;    // experts
  uint32_t *by_rank; // [count] experts, the most popular first
  double *up_to;     // [count] the sum of the weights up to this expert; the last sum is 1
};

static void shuffle(struct bench_ep_routing *r) {
  uint64_t state = random_mix(r->seed) ^ random_mix(r->count);
  for (uint32_t i = 0; i < r->count; i++)
    r->by_rank[i] = i;
  for (uint32_t i = r->count - 1; i > 0; i--) {
    uint32_t other = (uint32_t)(random_next(&state) % (i + 1u)), kept = r->by_rank[i];
    r->by_rank[i] = r->by_rank[other];
    r->by_rank[other] = kept;
  }
}

static void weigh(struct bench_ep_routing *r) {
  double exponent = r->point.skew.kind == BENCH_EP_ZIPF ? r->point.skew.value : 0, sum = 0;
  for (uint32_t i = 0; i < r->count; i++)
    r->up_to[i] = sum += pow(i + 1.0, -exponent);
  for (uint32_t i = 0; i < r->count; i++)
    r->up_to[i] /= sum;
}

int bench_ep_routing_open(struct bench_ep_routing **out, const struct bench_ep_point *point, uint64_t seed) {
  struct bench_ep_routing *r = calloc(1, sizeof *r);
  if (!r)
    return fail(WEFT_ERR_NOMEM, "no memory for the routing");
  *r = (struct bench_ep_routing){.point = *point, .seed = seed, .count = point->ranks * point->experts};
  int err = point->topk > r->count
                ? fail(WEFT_ERR_INVALID, "a token cannot select %u of %u experts", point->topk, r->count)
                : 0;
  r->by_rank = malloc(r->count * sizeof *r->by_rank);
  r->up_to = malloc(r->count * sizeof *r->up_to);
  if (!err && !(r->by_rank && r->up_to))
    err = fail(WEFT_ERR_NOMEM, "no memory for the routing to %u experts", r->count);
  if (err) {
    bench_ep_routing_close(r);
    return err;
  }
  shuffle(r);
  weigh(r);
  *out = r;
  return 0;
}

void bench_ep_routing_close(struct bench_ep_routing *r) {
  if (!r)
    return;
  free(r->by_rank);
  free(r->up_to);
  free(r);
}

int64_t bench_ep_routing_hottest(const struct bench_ep_routing *r) {
  return r->by_rank[0];
}

// A number from 0 to 1, without 1.
static double draw_unit(uint64_t *state) {
  return (double)(random_next(state) >> 11) * 0x1p-53;
}

// Draws a place in the order of popularity.
static uint32_t draw_place(const struct bench_ep_routing *r, uint64_t *state) {
  double unit = draw_unit(state);
  uint32_t low = 0, high = r->count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (r->up_to[middle] > unit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool has(const int64_t *experts, uint32_t count, int64_t expert) {
  for (uint32_t k = 0; k < count; k++)
    if (experts[k] == expert)
      return true;
  return false;
}

static void route_token(const struct bench_ep_routing *r, uint64_t *state, int64_t *experts) {
  uint32_t k = 0;
  if (r->point.skew.kind == BENCH_EP_HOT && draw_unit(state) < r->point.skew.value)
    experts[k++] = r->by_rank[0];
  for (; k < r->point.topk; k++) {
    uint32_t place = draw_place(r, state);
    for (int i = 0; i < DRAWS && has(experts, k, r->by_rank[place]); i++)
      place = draw_place(r, state);
    for (place = has(experts, k, r->by_rank[place]) ? 0 : place; has(experts, k, r->by_rank[place]);)
      place++;
    experts[k] = r->by_rank[place];
  }
}

void bench_ep_routing_fill(const struct bench_ep_routing *r, int32_t rank, int64_t *topk_idx, float *weights) {
  uint64_t state = random_mix(random_mix(r->seed) + (uint64_t)rank);
  for (uint32_t t = 0; t < r->point.tokens; t++) {
    route_token(r, &state, topk_idx + (size_t)t * r->point.topk);
    for (uint32_t k = 0; k < r->point.topk; k++) // 24 bits: the weights are exact
      weights[(size_t)t * r->point.topk + k] =
          (float)((1u << 21) + (random_next(&state) & 0xFFFFFF) * 7 / 8) * 0x1p-24f;
  }
}
