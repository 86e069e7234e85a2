// The judge of combines of world.h: it adds up what each rank sent.
#include <math.h>
#include <string.h>

#include "ep/host/support/world.h"

// What a rank sends back for a token in column i: the sum of its selections.
static float of_rank(const struct world *world, const struct shape *shape, int32_t rank, int32_t source, uint32_t token,
                     uint32_t i) {
  struct way way = world_way(world, shape, rank);
  if (way.layout == WEFT_EP_RANK_MAJOR)
    return world_rank_output(world, shape->op, rank, source, token, i);
  float sum = 0;
  int32_t of;
  for (uint32_t k = 0; k < shape->topk; k++)
    if (world_reaches(world, shape->op, source, token, k, &of) && of == rank)
      sum += (shape->unweighted ? 1 : world_weight(world, shape->op, source, token, k)) *
             world_output(world, shape->op, world_expert(world, shape->op, source, token, k), source, token, i);
  return sum;
}

// The factor of renormalisation, and the ranks that bring something: a bit for each of world->ranks.
static double bring(const struct world *world, const struct shape *shape, int32_t rank, uint32_t token, uint32_t *ranks,
                    uint32_t *missing) {
  double all = 0, came = 0;
  *ranks = *missing = 0;
  for (uint32_t k = 0; k < shape->topk; k++) {
    int32_t of;
    if (world_expert(world, shape->op, rank, token, k) < 0)
      continue;
    double weight = shape->unweighted ? 1 : (double)world_weight(world, shape->op, rank, token, k);
    bool reaches = world_reaches(world, shape->op, rank, token, k, &of);
    all += weight;
    came += reaches ? weight : 0;
    *missing += !reaches;
    for (uint32_t r = 0; reaches && r < world->num_ranks; r++)
      *ranks |= (uint32_t)(world->ranks[r] == of) << r;
  }
  return *missing > 0 && came > 0 ? all / came : 1;
}

static bool check_token(const struct world *world, const struct shape *shape, const struct way *way, int32_t rank,
                        uint32_t token, const uint16_t *out, uint32_t *missing, char what[256]) {
  uint32_t ranks, lost;
  double factor = bring(world, shape, rank, token, &ranks, &lost);
  *missing += lost;
  if (!way->renormalize)
    factor = 1;
  for (uint32_t i = 0; i < world->hidden; i++) {
    double sum = 0, coded = 0, bias = 0;
    for (uint32_t r = 0; r < world->num_ranks; r++) {
      if (!(ranks >> r & 1))
        continue;
      double part = (double)of_rank(world, shape, world->ranks[r], rank, token, i);
      struct way theirs = world_way(world, shape, world->ranks[r]);
      bool codes = theirs.answers == WEFT_EP_COMBINE_LOGFMT10 && world->ranks[r] != rank;
      coded += codes ? fabs(part) * 0.03 : 0;
      sum += part;
    }
    for (uint32_t b = 0; b < 2; b++)
      if (way->biases >> b & 1)
        bias += (double)world_bias(world, shape->op, rank, b, token, i);
    double right = factor * sum + bias, is = (double)world_value(out[i]);
    double room = coded * factor + (coded > 0 || factor != 1 ? fabs(right) / 128 + 1e-3 : 0);
    if (!(fabs(is - right) <= room))
      return world_wrong(what, "token %u, column %u is %g, should be %g (%u missing)", token, i, is, right, lost);
  }
  return true;
}

static bool check_weights(const struct world *world, const struct shape *shape, uint32_t round, int32_t rank,
                          uint32_t token, const float *weights, char what[256]) {
  for (uint32_t k = 0; k < shape->topk; k++) {
    int32_t of;
    bool reaches = world_reaches(world, shape->op, rank, token, k, &of);
    struct way theirs = reaches ? world_way(world, shape, of) : (struct way){0};
    bool comes = reaches && theirs.layout == WEFT_EP_RANK_MAJOR && world_gives_weights(world, shape->op, round, of);
    float right = comes ? world_row_weight(world, shape->op, round, of, rank, token, k) : 0;
    if (memcmp(&weights[k], &right, sizeof right) != 0)
      return world_wrong(what, "out_weights of token %u, place %u is %g, should be %g of rank %d", token, k,
                         (double)weights[k], (double)right, of);
  }
  return true;
}

bool world_judge_combine(const struct world *world, const struct shape *shape, const struct way *way, uint32_t round,
                         int32_t rank, const uint16_t *out, const float *out_weights,
                         const struct weft_ep_result *result, char what[256]) {
  uint32_t missing = 0;
  for (uint32_t t = 0; t < world_tokens(world, shape->op, rank); t++)
    if (!check_token(world, shape, way, rank, t, out + (size_t)t * world->hidden, &missing, what) ||
        (out_weights && !check_weights(world, shape, round, rank, t, out_weights + (size_t)t * shape->topk, what)))
      return false;
  if (result->num_missing != missing || result->num_lost != 0)
    return world_wrong(what, "%u missing, %u lost; should be %u, 0", result->num_missing, result->num_lost, missing);
  return true;
}
