// Inputs of operations: each value depends on its place and a seed.
#include "ep/oracle/pattern.h"

#include <string.h>

#include "base/random.h"

enum { PERIOD = 8, CONSTANT_AT = 0, SCALED_AT = 4 };

// Independent streams of one operation and rank.
enum stream { STREAM_TOKENS, STREAM_ROWS, STREAM_ROUTING, STREAM_POOL, STREAM_POOL_START };

enum pattern_kind pattern_kind_of(uint64_t op) {
  return op % PERIOD == CONSTANT_AT ? PATTERN_CONSTANT : op % PERIOD == SCALED_AT ? PATTERN_SCALED : PATTERN_PLAIN;
}

static uint64_t stream_key(const struct pattern *pattern, uint64_t op, int32_t rank, enum stream stream) {
  uint64_t key = random_mix(pattern->seed) ^ op;
  key = random_mix(key) ^ (uint64_t)(uint32_t)rank;
  return random_mix(key) ^ random_mix(stream);
}

uint32_t pattern_tokens(const struct pattern *pattern, uint64_t op, int32_t rank) {
  if (!pattern->uneven || pattern_kind_of(op) == PATTERN_CONSTANT)
    return pattern->num_tokens;
  return (uint32_t)(random_mix(stream_key(pattern, op, rank, STREAM_TOKENS)) % (pattern->num_tokens + 1u));
}

static uint16_t to_bf16(float value) { // towards zero
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void fill_constant(uint16_t *row, int32_t rank, uint32_t token, uint32_t hidden) {
  uint16_t body = to_bf16((float)(rank % 256 - 128)), tail = to_bf16((float)(token % 256));
  for (uint32_t i = 0; i < hidden; i++)
    row[i] = i < hidden - WEFT_EP_BLOCK ? body : tail;
}

// Values spread evenly over (-m, m), m the block's magnitude: (8 to 15) * 2^(-3 to 2). Four to a hash, so that the loop
// is short; the top 16 bits of each f32 are the bf16.
static void fill_block(uint16_t *x, uint64_t *state) {
  uint64_t choice = random_next(state);
  float unit = (float)((8 + choice % 8) << (choice >> 8) % 6) * 0x1p-18f;
  for (int i = 0; i < WEFT_EP_BLOCK; i += 4) {
    uint64_t bits = random_next(state);
    for (int j = 0; j < 4; j++)
      x[i + j] = to_bf16((float)(int16_t)(bits >> 16 * j) * unit);
  }
}

static void fill_random(uint16_t *row, uint64_t key, uint32_t token, uint32_t hidden) {
  uint64_t state = random_mix(key + token);
  for (uint32_t start = 0; start < hidden; start += WEFT_EP_BLOCK)
    fill_block(row + start, &state);
}

void pattern_pool_fill(const struct pattern *pattern, int32_t rank, uint32_t first, uint32_t count, uint16_t *x) {
  uint64_t key = stream_key(pattern, 0, rank, STREAM_POOL);
  for (uint32_t i = 0; i < count; i++)
    fill_random(x + (size_t)i * pattern->hidden, key, (first + i) % pattern->pool, pattern->hidden);
}

uint32_t pattern_pool_start(const struct pattern *pattern, uint64_t op, int32_t rank) {
  return (uint32_t)(random_mix(stream_key(pattern, op, rank, STREAM_POOL_START)) % pattern->pool);
}

static bool taken(const int64_t *experts, uint32_t count, int64_t expert) {
  for (uint32_t k = 0; k < count; k++)
    if (experts[k] == expert)
      return true;
  return false;
}

// Draws among all experts of the active ranks; one that the token has already gives way to the next that it has not.
static void draw_experts(const struct pattern *pattern, const int32_t *active, uint32_t num_active, uint64_t *state,
                         int64_t *experts) {
  uint64_t total = (uint64_t)num_active * pattern->experts_per_rank;
  for (uint32_t k = 0; k < pattern->topk; k++) {
    experts[k] = -1;
    if (k >= total)
      continue;
    int64_t expert;
    uint64_t draw = random_next(state) % total;
    do {
      expert = (int64_t)active[draw / pattern->experts_per_rank] * pattern->experts_per_rank +
               (int64_t)(draw % pattern->experts_per_rank);
      draw = (draw + 1) % total;
    } while (taken(experts, k, expert));
    experts[k] = expert;
  }
}

static void route_token(const struct pattern *pattern, const int32_t *active, uint32_t num_active, uint64_t *state,
                        int64_t *experts, float *weights) {
  draw_experts(pattern, active, num_active, state, experts);
  uint64_t limit = (uint64_t)((double)pattern->drop * 0x1p32);
  for (uint32_t k = 0; k < pattern->topk; k++) {
    uint64_t bits = random_next(state);
    weights[k] = (float)((1u << 21) + (bits & 0xFFFFFF) * 7 / 8) * 0x1p-24f; // 24 bits: exact
    if (bits >> 32 < limit)
      experts[k] = -1;
  }
}

uint32_t pattern_fill(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                      uint32_t num_active, uint16_t *x, int64_t *topk_idx, float *weights) {
  uint32_t num_tokens = pattern_tokens(pattern, op, rank), hidden = pattern->hidden, topk = pattern->topk;
  uint64_t rows = stream_key(pattern, op, rank, STREAM_ROWS), routing = stream_key(pattern, op, rank, STREAM_ROUTING);
  for (uint32_t t = 0; t < num_tokens; t++) {
    uint16_t *row = x + (size_t)t * hidden;
    if (pattern_kind_of(op) == PATTERN_CONSTANT)
      fill_constant(row, rank, t, hidden);
    else if (pattern->pool)
      pattern_pool_fill(pattern, rank, pattern_pool_start(pattern, op, rank) + t, 1, row);
    else
      fill_random(row, rows, t, hidden);
    route_token(pattern, active, num_active, &routing, topk_idx + (size_t)t * topk, weights + (size_t)t * topk);
  }
  return num_tokens;
}

// An odd multiplier goes through all 256 bf16 numbers of the two binades before it comes back.
double pattern_expert_factor(int64_t expert) {
  uint32_t place = (uint32_t)expert * 97u % 256;
  return (128 + place % 128) * (place < 128 ? 0x1p-8 : 0x1p-7);
}

void pattern_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out) {
  double factor = *(const enum pattern_kind *)arg == PATTERN_SCALED ? pattern_expert_factor(expert) : 1;
  for (uint32_t i = 0; i < hidden; i++)
    out[i] = factor * row[i];
}
