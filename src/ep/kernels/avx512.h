// What the two AVX-512 variants share. A register of 32 bf16 is split into its even and its odd values, each as the
// upper half of an f32, by a shift and a mask. The steps in which the variants differ are arguments of the loops here;
// all are inlined.
//
// Special numbers cost one test for each block of 128 values: wrong results of a fast step are detected at once, and
// the block is computed again in the slow way.
#ifndef EP_KERNELS_AVX512_H
#define EP_KERNELS_AVX512_H

#include <immintrin.h>

#include "ep/kernels/variants.h"

enum {
  LANES = 32, // bf16 values of a register
  PARTS = KERNEL_BLOCK / LANES,
  CAST_GROUP = 8, // blocks whose scales are found before any of them is cast: the casts need not wait for a division

  // _mm512_fpclass_ps_mask
  CLASS_NAN = 0x81,
  CLASS_DENORMAL = 0x20,
  // _mm512_range_ps: the larger magnitude, with the sign of the first operand
  RANGE_MOST = 3,
};

#define ODD_LANES ((__mmask32)0xAAAAAAAA)
#define INLINE    static inline __attribute__((always_inline))

INLINE __m512 even_values(__m512i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
INLINE __m512 odd_values(__m512i x) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xFFFF0000)));
}

// --- cast ---

INLINE uint32_t largest_of(__m512i x) {
  __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  __m128i lowest = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1))); // the largest is the lowest complement
  return 0xFFFFu ^ (uint32_t)_mm_extract_epi16(lowest, 0);
}

// Of all values, whatever they are.
INLINE uint32_t block_most(const uint16_t *x) {
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < KERNEL_BLOCK; i += LANES) {
    _mm_prefetch(kernel_ahead(x + i, CAST_GROUP * KERNEL_BLOCK * sizeof *x), _MM_HINT_T0);
    most = _mm512_max_epu16(most, _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi16(BF16_MAGNITUDE)));
  }
  return largest_of(most);
}

// Of the finite values.
INLINE uint32_t block_amax(const uint16_t *x) {
  __m512i amax = _mm512_setzero_si512();
  for (int i = 0; i < KERNEL_BLOCK; i += LANES) {
    __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi16(BF16_MAGNITUDE));
    __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(BF16_INFINITY));
    amax = _mm512_mask_max_epu16(amax, finite, amax, magnitude);
  }
  return largest_of(amax);
}

// Rounds to e4m3. The result has the number of steps, with CAST_LIFTED_BIAS subtracted, in the lowest eight bits, and E
// + 147 in the exponent (variants.h explains both; here CAST_LIFT is a factor, and the power has the sign). For |x *
// inverse| up to 448. A step is an eighth of the power, so the factor can add any number of steps.
INLINE __m512i cast_lanes(__m512 x, __m512 inverse) {
  __m512 value = _mm512_mul_ps(x, inverse);
  __m512 power = _mm512_and_ps(value, _mm512_castsi512_ps(_mm512_set1_epi32((int)(F32_EXPONENT | 0x80000000))));
  power = _mm512_range_ps(power, _mm512_set1_ps(0x1p-6f), RANGE_MOST);
  const __m512 lift = _mm512_set1_ps(0x1p20f + (256 - CAST_LIFTED_BIAS) / 8.0f); // exact, and so is the product
  return _mm512_castps_si512(_mm512_fmadd_ps(power, lift, value));
}

// Casts a block with infinities or NaN: the scale comes from the finite numbers only.
static __attribute__((noinline)) void cast_special(uint8_t *q, float *scale, const uint16_t *x, bool pow2) {
  float inverse = block_scale(block_amax(x), pow2, scale);
  for (int i = 0; i < KERNEL_BLOCK; i++) {
    int magnitude = x[i] & BF16_MAGNITUDE;
    uint32_t most = magnitude > BF16_INFINITY ? E4M3_NAN : E4M3_NAN - 1;
    if (magnitude >= BF16_INFINITY) {
      q[i] = (uint8_t)(most | (x[i] >> 8 & E4M3_SIGN));
      continue;
    }
    float value = float_of((uint32_t)magnitude << 16) * inverse;
    uint32_t power = bits_of(value) & F32_EXPONENT;
    power = power > E4M3_NORMAL_F32 ? power : E4M3_NORMAL_F32;
    uint32_t code = bits_of(value + float_of(power + CAST_LIFT)) + (power >> CAST_SHIFT) - CAST_BIAS;
    q[i] = (uint8_t)((code & 0xFF) | (x[i] >> 8 & E4M3_SIGN));
  }
}

// `cast_block` casts 128 finite values.
INLINE void cast_row(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2,
                     void (*cast_block)(uint8_t *q, const uint16_t *x, __m512 inverse)) {
  float inverse[CAST_GROUP];
  uint32_t blocks = hidden / KERNEL_BLOCK;
  for (uint32_t first = 0; first < blocks; first += CAST_GROUP) {
    uint32_t count = blocks - first < CAST_GROUP ? blocks - first : CAST_GROUP;
    uint32_t special = 0;
    for (uint32_t i = 0; i < count; i++) {
      uint32_t most = block_most(x + (first + i) * KERNEL_BLOCK);
      special |= (uint32_t)(most >= BF16_INFINITY) << i;
      inverse[i] = block_scale(most, pow2, &scales[first + i]);
    }
    for (uint32_t i = 0; i < count; i++) {
      size_t start = (size_t)(first + i) * KERNEL_BLOCK;
      if (special >> i & 1)
        cast_special(q + start, &scales[first + i], x + start, pow2);
      else
        cast_block(q + start, x + start, _mm512_set1_ps(inverse[i]));
    }
  }
}

// --- to bf16 ---

// bf16 bits of f32 values, in the upper half of each lane; the lower half is not defined. Wrong for NaN.
INLINE __m512i round_numbers(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), lowest);
}

INLINE __m512i round_lanes(__m512 value) {
  __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(round_numbers(value), nan, _mm512_set1_epi32(BF16_NAN << 16));
}

INLINE __m512i join_lanes(__m512i even, __m512i odd) {
  return _mm512_mask_blend_epi16(ODD_LANES, _mm512_srli_epi32(even, 16), odd);
}

// Right for all values.
INLINE __m512i round_values(__m512 even, __m512 odd) {
  return join_lanes(round_lanes(even), round_lanes(odd));
}

// --- uncast ---

// Takes magnitudes already shifted by UNCAST_SHIFT.
INLINE __m512 uncast_lanes(__m512i magnitude) {
  __mmask16 denormal = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(UNCAST_LIFT));
  __m512i bits = _mm512_add_epi32(magnitude, _mm512_set1_epi32(UNCAST_BIAS));
  bits = _mm512_mask_add_epi32(bits, denormal, bits, _mm512_set1_epi32(UNCAST_LIFT));
  __m512 value = _mm512_castsi512_ps(bits);
  return _mm512_mask_sub_ps(value, denormal, value, _mm512_set1_ps(0x1p-6f));
}

INLINE __m512i uncast_values(__m256i codes, __m512 scale) {
  __m512i q = _mm512_cvtepu8_epi16(codes);
  __m512i field = _mm512_set1_epi32(E4M3_NAN << UNCAST_SHIFT);
  __m512 even = uncast_lanes(_mm512_and_si512(_mm512_slli_epi32(q, UNCAST_SHIFT), field));
  __m512 odd = uncast_lanes(_mm512_and_si512(_mm512_slli_epi32(q, UNCAST_SHIFT - 16), field));
  __m512i out = round_values(_mm512_mul_ps(even, scale), _mm512_mul_ps(odd, scale));
  __m512i magnitude = _mm512_and_si512(q, _mm512_set1_epi16(E4M3_NAN));
  __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(E4M3_NAN));
  out = _mm512_mask_mov_epi16(out, nan, _mm512_set1_epi16(BF16_NAN));
  return _mm512_or_si512(out, _mm512_and_si512(_mm512_slli_epi16(q, 8), _mm512_set1_epi16((short)BF16_SIGN)));
}

INLINE void uncast_row(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    __m512 scale = _mm512_set1_ps(*scales++);
    for (uint32_t i = start; i < start + KERNEL_BLOCK; i += LANES)
      _mm512_storeu_si512(out + i, uncast_values(_mm256_loadu_si256((const __m256i *)(q + i)), scale));
  }
}

// --- reduce ---

// One block of all rows, its sums in eight registers.
INLINE void reduce_block(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                         const uint16_t *const *biases, uint32_t num_biases, uint32_t start,
                         __m512i (*round)(__m512 even, __m512 odd), __mmask16 (*wrong)(__m512 sums)) {
  __m512 even[PARTS], odd[PARTS];
  for (uint32_t r = 0; r < count; r++) {
    const uint16_t *row = rows[r] + start;
    __m512 weight = _mm512_set1_ps(weights ? weights[r] : 1.0f);
    for (int i = 0; i < PARTS; i++) {
      __m512i x = _mm512_loadu_si512(row + i * LANES);
      _mm_prefetch(kernel_ahead(row + i * LANES, REDUCE_AHEAD), _MM_HINT_T0);
      __m512 low = even_values(x), high = odd_values(x);
      low = weights ? _mm512_mul_ps(weight, low) : low;
      high = weights ? _mm512_mul_ps(weight, high) : high;
      even[i] = r == 0 ? low : _mm512_add_ps(even[i], low);
      odd[i] = r == 0 ? high : _mm512_add_ps(odd[i], high);
    }
  }
  if (factor != 1.0f)
    for (int i = 0; i < PARTS; i++) {
      even[i] = _mm512_mul_ps(_mm512_set1_ps(factor), even[i]);
      odd[i] = _mm512_mul_ps(_mm512_set1_ps(factor), odd[i]);
    }
  for (uint32_t b = 0; b < num_biases; b++)
    for (int i = 0; i < PARTS; i++) {
      __m512i x = _mm512_loadu_si512(biases[b] + start + i * LANES);
      even[i] = _mm512_add_ps(even[i], even_values(x));
      odd[i] = _mm512_add_ps(odd[i], odd_values(x));
    }
  __mmask16 again = 0;
  for (int i = 0; i < PARTS; i++) {
    again |= wrong(even[i]) | wrong(odd[i]);
    _mm512_storeu_si512(out + start + i * LANES, round(even[i], odd[i]));
  }
  if (__builtin_expect(again != 0, 0))
    for (int i = 0; i < PARTS; i++)
      _mm512_storeu_si512(out + start + i * LANES, round_values(even[i], odd[i]));
}

// `round` is correct for all sums except those for which `wrong` is true. The loop over two rows is unrolled, since a
// token that went to two ranks needs it.
INLINE void reduce_row(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                       uint32_t hidden, __m512i (*round)(__m512 even, __m512 odd), __mmask16 (*wrong)(__m512 sums)) {
  if (count == 0)
    memset(out, 0, hidden * sizeof *out);
  else if (weights)
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, weights, count, factor, NULL, 0, start, round, wrong);
  else if (count == 2 && factor == 1.0f)
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, NULL, 2, 1.0f, NULL, 0, start, round, wrong);
  else
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, NULL, count, factor, NULL, 0, start, round, wrong);
}

INLINE void reduce_row_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                              const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden,
                              __m512i (*round)(__m512 even, __m512 odd), __mmask16 (*wrong)(__m512 sums)) {
  if (count == 0)
    reduce_row(out, biases, NULL, num_biases, 1.0f, hidden, round, wrong);
  else
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, NULL, count, factor, biases, num_biases, start, round, wrong);
}

// --- copy ---

// The C library copies rows of 8 KB and more by `rep movsb`, which takes 1.5 times as long on some processors when the
// lines lie in another core's cache.
INLINE void copy_bytes(void *to, const void *from, size_t size) {
  const char *in = from;
  char *out = to;
  for (; size >= 256; size -= 256, in += 256, out += 256) {
    __m512i a = _mm512_loadu_si512(in), b = _mm512_loadu_si512(in + 64);
    __m512i c = _mm512_loadu_si512(in + 128), d = _mm512_loadu_si512(in + 192);
    _mm512_storeu_si512(out, a);
    _mm512_storeu_si512(out + 64, b);
    _mm512_storeu_si512(out + 128, c);
    _mm512_storeu_si512(out + 192, d);
  }
  memcpy(out, in, size);
}

INLINE void stream_bytes(void *to, const void *from, size_t size) {
  size_t before = kernel_unaligned(to, sizeof(__m512i), size);
  const char *in = (const char *)from + before;
  char *out = (char *)to + before;
  memcpy(to, from, before);
  for (size -= before; size >= 256; size -= 256, in += 256, out += 256) {
    __m512i a = _mm512_loadu_si512(in), b = _mm512_loadu_si512(in + 64);
    __m512i c = _mm512_loadu_si512(in + 128), d = _mm512_loadu_si512(in + 192);
    _mm512_stream_si512((__m512i *)out, a);
    _mm512_stream_si512((__m512i *)(out + 64), b);
    _mm512_stream_si512((__m512i *)(out + 128), c);
    _mm512_stream_si512((__m512i *)(out + 192), d);
  }
  memcpy(out, in, size);
}

#endif
