// Other values of a pattern besides rows: biases, weights that come back, opaque bytes.
#include <string.h>

#include "ep/oracle/pattern_stream.h"

void pattern_bias(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t which, uint32_t num_tokens,
                  uint16_t *bias) {
  uint64_t state = pattern_stream_key(pattern, op, rank, STREAM_BIAS) + which;
  state = random_mix(state);
  for (size_t i = 0; i < (size_t)num_tokens * pattern->hidden; i += WEFT_EP_BLOCK)
    pattern_fill_block(bias + i, &state);
}

float pattern_row_weight(const struct pattern *pattern, uint64_t op, int32_t holder, int32_t source, uint32_t token,
                         uint32_t k) {
  uint64_t key = pattern_stream_key(pattern, op, holder, STREAM_ROW_WEIGHTS) ^ (uint64_t)(uint32_t)source << 32;
  uint64_t bits = random_mix(random_mix(key) + (uint64_t)token * pattern->topk + k);
  float weight = (float)(1 + (bits & 0x7FFFFF)) * 0x1p-23f; // 24 bits: exact, and never 0
  return bits >> 63 ? -weight : weight;
}

static void fill_bytes(uint8_t *to, size_t size, uint64_t state) {
  for (size_t i = 0; i < size; i += sizeof state) {
    uint64_t bits = random_next(&state);
    memcpy(to + i, &bits, size - i < sizeof bits ? size - i : sizeof bits);
  }
}

void pattern_payload(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t token, uint32_t row_bytes,
                     uint32_t scale_bytes, uint8_t *row, uint8_t *scales) {
  uint64_t key = random_mix(pattern_stream_key(pattern, op, rank, STREAM_PAYLOAD) + token);
  fill_bytes(row, row_bytes, key);
  fill_bytes(scales, scale_bytes, ~key);
}
