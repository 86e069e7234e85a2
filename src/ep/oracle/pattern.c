// Inputs of operations: each value depends on its place and a seed.
#include "ep/oracle/pattern_stream.h"

#include <string.h>

enum { PERIOD = 8, CONSTANT_AT = 0, SCALED_AT = 4 };

enum pattern_kind pattern_kind_of(uint64_t op) {
  return op % PERIOD == CONSTANT_AT ? PATTERN_CONSTANT : op % PERIOD == SCALED_AT ? PATTERN_SCALED : PATTERN_PLAIN;
}

enum pattern_shape pattern_shape_of(const struct pattern *pattern, uint64_t op) {
  if (pattern->shape != PATTERN_ANY_SHAPE)
    return pattern->shape;
  return (enum pattern_shape)(pattern_stream_key(pattern, op, PATTERN_EVERY_RANK, STREAM_SHAPE) % PATTERN_ANY_SHAPE);
}

uint32_t pattern_tokens(const struct pattern *pattern, uint64_t op, int32_t rank) {
  if (pattern_shape_of(pattern, op) == PATTERN_EMPTY_RANKS &&
      pattern_stream_key(pattern, op, rank, STREAM_EMPTY) % 2 == 0)
    return 0;
  if (!pattern->uneven || pattern_kind_of(op) == PATTERN_CONSTANT)
    return pattern->num_tokens;
  return (uint32_t)(random_mix(pattern_stream_key(pattern, op, rank, STREAM_TOKENS)) % (pattern->num_tokens + 1u));
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

// Values spread evenly over (-m, m); m is the block's magnitude: (8 to 15) * 2^(-3 to 2). Each hash gives four values,
// so the loop is short; the top 16 bits of each f32 are the bf16.
void pattern_fill_block(uint16_t *x, uint64_t *state) {
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
    pattern_fill_block(row + start, &state);
}

void pattern_pool_fill(const struct pattern *pattern, int32_t rank, uint32_t first, uint32_t count, uint16_t *x) {
  uint64_t key = pattern_stream_key(pattern, 0, rank, STREAM_POOL);
  for (uint32_t i = 0; i < count; i++)
    fill_random(x + (size_t)i * pattern->hidden, key, (first + i) % pattern->pool, pattern->hidden);
}

uint32_t pattern_pool_start(const struct pattern *pattern, uint64_t op, int32_t rank) {
  return (uint32_t)(random_mix(pattern_stream_key(pattern, op, rank, STREAM_POOL_START)) % pattern->pool);
}

void pattern_row(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t token, uint16_t *row) {
  if (pattern_kind_of(op) == PATTERN_CONSTANT)
    fill_constant(row, rank, token, pattern->hidden);
  else if (pattern->pool)
    pattern_pool_fill(pattern, rank, pattern_pool_start(pattern, op, rank) + token, 1, row);
  else
    fill_random(row, pattern_stream_key(pattern, op, rank, STREAM_ROWS), token, pattern->hidden);
}

uint32_t pattern_fill(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                      uint32_t num_active, uint16_t *x, int64_t *topk_idx, float *weights) {
  uint32_t num_tokens = pattern_tokens(pattern, op, rank), hidden = pattern->hidden, topk = pattern->topk;
  uint64_t routing = pattern_stream_key(pattern, op, rank, STREAM_ROUTING);
  for (uint32_t t = 0; t < num_tokens; t++) {
    if (x)
      pattern_row(pattern, op, rank, t, x + (size_t)t * hidden);
    pattern_route_token(pattern, op, rank, active, num_active, &routing, topk_idx + (size_t)t * topk,
                        weights + (size_t)t * topk);
  }
  return num_tokens;
}

// With an odd multiplier all 256 bf16 numbers of the two binades occur before one repeats.
double pattern_expert_factor(int64_t expert) {
  uint32_t place = (uint32_t)expert * 97u % 256;
  return (128 + place % 128) * (place < 128 ? 0x1p-8 : 0x1p-7);
}

void pattern_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out) {
  double factor = *(const enum pattern_kind *)arg == PATTERN_SCALED ? pattern_expert_factor(expert) : 1;
  for (uint32_t i = 0; i < hidden; i++)
    out[i] = factor * row[i];
}
