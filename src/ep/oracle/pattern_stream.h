// The random numbers of a pattern: independent streams for each operation and rank.
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

enum { PATTERN_EVERY_RANK = -1 }; // used as the rank for numbers that all ranks have in common

static inline uint64_t pattern_stream_key(const struct pattern *pattern, uint64_t op, int32_t rank,
                                          enum pattern_stream stream) {
  uint64_t key = random_mix(pattern->seed) ^ op;
  key = random_mix(key) ^ (uint64_t)(uint32_t)rank;
  return random_mix(key) ^ random_mix(stream);
}

// Makes 128 bf16 values below 64, with a magnitude drawn for these 128.
void pattern_fill_block(uint16_t *x, uint64_t *state);

// Routes the next token of `rank`, and advances `state`.
void pattern_route_token(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                         uint32_t num_active, uint64_t *state, int64_t *experts, float *weights);

#endif
