// The kernels in portable C: the reference for the other variants. They have no branches, so that compilers can
// vectorise them.
#include "ep/kernels/variants.h"

// Uses signed numbers, since gcc vectorises these here.
static uint32_t block_amax(const uint16_t *x) {
  int16_t amax = 0;
  for (size_t i = 0; i < KERNEL_BLOCK; i++) {
    int16_t magnitude = (int16_t)(x[i] & BF16_MAGNITUDE);
    magnitude = magnitude < BF16_INFINITY ? magnitude : 0;
    amax = magnitude > amax ? magnitude : amax;
  }
  return (uint32_t)amax;
}

// Positive f32 values compare like their bits; NaN is larger than all.
static inline uint8_t cast_value(uint16_t x, float inverse) {
  int32_t magnitude = x & BF16_MAGNITUDE;
  int32_t value = (int32_t)bits_of(float_of((uint32_t)magnitude << 16) * inverse);
  value = value < E4M3_MOST_F32 ? value : E4M3_MOST_F32; // NaN too
  int32_t power = value & F32_EXPONENT;
  power = power > E4M3_NORMAL_F32 ? power : E4M3_NORMAL_F32;
  uint32_t steps = bits_of(float_of((uint32_t)value) + float_of((uint32_t)power + CAST_LIFT));
  uint32_t code = steps + ((uint32_t)power >> CAST_SHIFT) - CAST_BIAS;
  code |= magnitude > BF16_INFINITY; // 0x7E, of 448, becomes 0x7F
  return (uint8_t)(code | (x >> 8 & E4M3_SIGN));
}

void ep_kernels_portable_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2) {
  for (size_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    float inverse = block_scale(block_amax(x + start), pow2, scales++);
    for (size_t i = 0; i < KERNEL_BLOCK; i++)
      q[start + i] = cast_value(x[start + i], inverse);
  }
}

// To nearest even; every NaN becomes BF16_NAN.
static inline uint16_t round_bf16(float value) {
  uint32_t bits = bits_of(value);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7FFFFFFF) > F32_EXPONENT ? BF16_NAN : rounded);
}

static inline uint16_t uncast_value(uint8_t q, float scale) {
  uint32_t magnitude = (uint32_t)(q & E4M3_NAN) << UNCAST_SHIFT;
  uint32_t lift = magnitude < UNCAST_LIFT ? UNCAST_LIFT : 0;
  float excess = magnitude < UNCAST_LIFT ? 0x1p-6f : 0.0f;
  float value = float_of(magnitude + UNCAST_BIAS + lift) - excess;
  uint16_t out = round_bf16(value * scale);
  out = (q & E4M3_NAN) == E4M3_NAN ? BF16_NAN : out;
  return (uint16_t)(out | (q & E4M3_SIGN) << 8);
}

void ep_kernels_portable_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  for (size_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    float scale = *scales++;
    for (size_t i = 0; i < KERNEL_BLOCK; i++)
      out[start + i] = uncast_value(q[start + i], scale);
  }
}

static void reduce_block(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                         const uint16_t *const *biases, uint32_t num_biases, size_t start) {
  float sum[KERNEL_BLOCK];
  for (size_t i = 0; i < KERNEL_BLOCK; i++)
    sum[i] = -0.0f; // adding this to any number, also to -0, gives that number
  for (uint32_t r = 0; r < count; r++) {
    const uint16_t *row = rows[r] + start;
    float weight = weights ? weights[r] : 1.0f; // times 1 changes nothing
    for (size_t i = 0; i < KERNEL_BLOCK; i++)
      sum[i] += weight * float_of((uint32_t)row[i] << 16);
  }
  for (size_t i = 0; i < KERNEL_BLOCK; i++)
    sum[i] *= factor;
  for (uint32_t b = 0; b < num_biases; b++)
    for (size_t i = 0; i < KERNEL_BLOCK; i++)
      sum[i] += float_of((uint32_t)biases[b][start + i] << 16);
  for (size_t i = 0; i < KERNEL_BLOCK; i++)
    out[start + i] = round_bf16(sum[i]);
}

void ep_kernels_portable_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                                float factor, uint32_t hidden) {
  if (count == 0) {
    memset(out, 0, hidden * sizeof *out);
    return;
  }
  for (size_t start = 0; start < hidden; start += KERNEL_BLOCK)
    reduce_block(out, rows, weights, count, factor, NULL, 0, start);
}

void ep_kernels_portable_reduce_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                                       const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden) {
  if (count == 0) {
    ep_kernels_portable_reduce(out, biases, NULL, num_biases, 1.0f, hidden);
    return;
  }
  for (size_t start = 0; start < hidden; start += KERNEL_BLOCK)
    reduce_block(out, rows, NULL, count, factor, biases, num_biases, start);
}

const struct ep_kernels ep_kernels_portable = {
    .name = "portable",
    .cast_fp8 = ep_kernels_portable_cast_fp8,
    .uncast_fp8 = ep_kernels_portable_uncast_fp8,
    .reduce = ep_kernels_portable_reduce,
    .reduce_biased = ep_kernels_portable_reduce_biased,
    .encode10 = ep_kernels_portable_encode10,
    .decode10 = ep_kernels_portable_decode10,
    .copy = ep_kernels_copy,
    .stream = ep_kernels_copy,
};
