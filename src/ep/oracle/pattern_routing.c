// Chooses the experts of a token of a pattern, and their weights.
#include "ep/oracle/pattern_stream.h"

// The expert of that number; the experts of these ranks are numbered from 0.
static int64_t expert_of(const struct pattern *pattern, const int32_t *ranks, uint64_t number) {
  return (int64_t)ranks[number / pattern->experts_per_rank] * pattern->experts_per_rank +
         (int64_t)(number % pattern->experts_per_rank);
}

static bool taken(const int64_t *experts, uint32_t count, int64_t expert) {
  for (uint32_t k = 0; k < count; k++)
    if (experts[k] == expert)
      return true;
  return false;
}

// Draws among all experts of the ranks; if the token has that expert already, takes the next one that it does not have.
static void draw_experts(const struct pattern *pattern, const int32_t *ranks, uint32_t num_ranks, uint64_t *state,
                         int64_t *experts) {
  uint64_t total = (uint64_t)num_ranks * pattern->experts_per_rank;
  for (uint32_t k = 0; k < pattern->topk; k++) {
    experts[k] = -1;
    if (k >= total)
      continue;
    int64_t expert;
    uint64_t draw = random_next(state) % total;
    do {
      expert = expert_of(pattern, ranks, draw);
      draw = (draw + 1) % total;
    } while (taken(experts, k, expert));
    experts[k] = expert;
  }
}

int64_t pattern_hot_expert(const struct pattern *pattern, uint64_t op, const int32_t *active, uint32_t num_active) {
  uint64_t total = (uint64_t)num_active * pattern->experts_per_rank;
  return expert_of(pattern, active, pattern_stream_key(pattern, op, PATTERN_EVERY_RANK, STREAM_HOT) % total);
}

// Three of four tokens get the hot expert, in place of another expert or of -1.
static void select_hot(const struct pattern *pattern, uint64_t *state, int64_t hot, int64_t *experts) {
  uint64_t draw = random_next(state);
  if (draw % 4 != 0 && !taken(experts, pattern->topk, hot))
    experts[draw / 4 % pattern->topk] = hot;
}

static void select_one(const struct pattern *pattern, uint64_t *state, int64_t hot, int64_t *experts) {
  for (uint32_t k = 0; k < pattern->topk; k++)
    experts[k] = -1;
  experts[random_next(state) % pattern->topk] = hot;
}

// Draws one or two of the ranks, to which the tokens of `rank` go.
static uint32_t draw_ranks(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                           uint32_t num_active, int32_t few[2]) {
  uint64_t draw = pattern_stream_key(pattern, op, rank, STREAM_FEW);
  uint32_t first = (uint32_t)(draw % num_active), second = (uint32_t)((draw >> 32) % num_active);
  few[0] = active[first < second ? first : second];
  few[1] = active[first < second ? second : first];
  return first == second ? 1 : 2;
}

void pattern_route_token(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                         uint32_t num_active, uint64_t *state, int64_t *experts, float *weights) {
  enum pattern_shape shape = pattern_shape_of(pattern, op);
  int32_t few[2];
  uint32_t num_few = shape == PATTERN_FEW_RANKS ? draw_ranks(pattern, op, rank, active, num_active, few) : 0;
  draw_experts(pattern, num_few ? few : active, num_few ? num_few : num_active, state, experts);
  if (shape == PATTERN_HOT)
    select_hot(pattern, state, pattern_hot_expert(pattern, op, active, num_active), experts);
  if (shape == PATTERN_ONE_EXPERT)
    select_one(pattern, state, pattern_hot_expert(pattern, op, active, num_active), experts);
  uint64_t limit = (uint64_t)((double)pattern->drop * 0x1p32);
  for (uint32_t k = 0; k < pattern->topk; k++) {
    uint64_t bits = random_next(state);
    weights[k] = (float)((1u << 21) + (bits & 0xFFFFFF) * 7 / 8) * 0x1p-24f; // 24 bits: exact
    if (bits >> 32 < limit)
      experts[k] = -1;
  }
}
