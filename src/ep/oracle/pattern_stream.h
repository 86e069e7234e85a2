// Where the numbers of a pattern come from: independent streams of an operation and a rank.
#ifndef EP_ORACLE_PATTERN_STREAM_H
#define EP_ORACLE_PATTERN_STREAM_H

#include "base/random.h"
#include "ep/oracle/pattern.h"

enum pattern_stream {
  STREAM_TOKENS,
  STREAM_ROWS,
  STREAM_ROUTING,
  STREAM_POOL,
  STREAM_POOL_START,
  STREAM_SHAPE,
  STREAM_HOT,
  STREAM_FEW,
  STREAM_EMPTY,
  STREAM_BIAS,
  STREAM_ROW_WEIGHTS,
  STREAM_PAYLOAD,
};

enum { PATTERN_EVERY_RANK = -1 }; // in the place of a rank, for what all ranks have in common

static inline uint64_t pattern_stream_key(const struct pattern *pattern, uint64_t op, int32_t rank,
                                          enum pattern_stream stream) {
  uint64_t key = random_mix(pattern->seed) ^ op;
  key = random_mix(key) ^ (uint64_t)(uint32_t)rank;
  return random_mix(key) ^ random_mix(stream);
}

// 128 values, bf16, below 64, of a magnitude of their own.
void pattern_fill_block(uint16_t *x, uint64_t *state);

// Routes the next token of `rank`. `state` goes on.
void pattern_route_token(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                         uint32_t num_active, uint64_t *state, int64_t *experts, float *weights);

#endif
