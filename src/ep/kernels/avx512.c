// The kernels for AVX-512 (F, BW, VL, DQ). A register of 32 bf16 is taken apart into its even and its odd values, each
// as the upper half of an f32: a shift and a mask, and the way back is one blend. Nothing changes its order.
#include <immintrin.h>

#include "ep/kernels/variants.h"

enum { LANES = 32 }; // bf16 values of a register

#define ODD_LANES ((__mmask32)0xAAAAAAAA)

static inline __m512 even_values(__m512i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
static inline __m512 odd_values(__m512i x) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xFFFF0000)));
}

static uint32_t block_amax(const uint16_t *x) {
  __m512i amax = _mm512_setzero_si512();
  for (int i = 0; i < KERNEL_BLOCK; i += LANES) {
    __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi16(BF16_MAGNITUDE));
    __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(BF16_INFINITY));
    amax = _mm512_mask_max_epu16(amax, finite, amax, magnitude);
  }
  __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(amax), _mm512_extracti64x4_epi64(amax, 1));
  __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  __m128i lowest = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1))); // the largest is the lowest complement
  return 0xFFFFu ^ (uint32_t)_mm_extract_epi16(lowest, 0);
}

// The codes, without CAST_BIAS, in the lower half of each lane; the upper half is not defined.
static inline __m512i cast_lanes(__m512 magnitude, __m512 inverse) {
  __m512 value = _mm512_min_ps(_mm512_mul_ps(magnitude, inverse), _mm512_set1_ps(448.0f)); // NaN gives 448
  __m512i power = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(F32_EXPONENT));
  power = _mm512_max_epu32(power, _mm512_set1_epi32(E4M3_NORMAL_F32));
  __m512 anchor = _mm512_castsi512_ps(_mm512_add_epi32(power, _mm512_set1_epi32(CAST_LIFT)));
  __m512i steps = _mm512_castps_si512(_mm512_add_ps(value, anchor));
  return _mm512_add_epi32(steps, _mm512_srli_epi32(power, CAST_SHIFT));
}

static inline __m256i cast_values(__m512i x, __m512 inverse) {
  __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(BF16_MAGNITUDE));
  __m512i even = cast_lanes(even_values(magnitude), inverse);
  __m512i odd = cast_lanes(odd_values(magnitude), inverse);
  __m512i code = _mm512_mask_blend_epi16(ODD_LANES, even, _mm512_slli_epi32(odd, 16));
  code = _mm512_sub_epi16(code, _mm512_set1_epi16(CAST_BIAS));
  __mmask32 nan = _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(BF16_INFINITY));
  code = _mm512_mask_mov_epi16(code, nan, _mm512_set1_epi16(E4M3_NAN));
  __m512i sign = _mm512_and_si512(_mm512_srli_epi16(x, 8), _mm512_set1_epi16(E4M3_SIGN));
  return _mm512_cvtepi16_epi8(_mm512_or_si512(code, sign));
}

static void avx512_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2) {
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    __m512 inverse = _mm512_set1_ps(block_scale(block_amax(x + start), pow2, scales++));
    for (uint32_t i = start; i < start + KERNEL_BLOCK; i += LANES)
      _mm256_storeu_si256((__m256i *)(q + i), cast_values(_mm512_loadu_si512(x + i), inverse));
  }
}

// bf16 bits of f32 values, in the upper half of each lane; the lower half is not defined.
static inline __m512i round_lanes(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), lowest);
  __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(BF16_NAN << 16));
}

static inline __m512i round_values(__m512 even, __m512 odd) {
  return _mm512_mask_blend_epi16(ODD_LANES, _mm512_srli_epi32(round_lanes(even), 16), round_lanes(odd));
}

// Takes magnitudes already shifted by UNCAST_SHIFT.
static inline __m512 uncast_lanes(__m512i magnitude) {
  __mmask16 denormal = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(UNCAST_LIFT));
  __m512i bits = _mm512_add_epi32(magnitude, _mm512_set1_epi32(UNCAST_BIAS));
  bits = _mm512_mask_add_epi32(bits, denormal, bits, _mm512_set1_epi32(UNCAST_LIFT));
  __m512 value = _mm512_castsi512_ps(bits);
  return _mm512_mask_sub_ps(value, denormal, value, _mm512_set1_ps(0x1p-6f));
}

static inline __m512i uncast_values(__m256i codes, __m512 scale) {
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

static void avx512_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    __m512 scale = _mm512_set1_ps(*scales++);
    for (uint32_t i = start; i < start + KERNEL_BLOCK; i += LANES)
      _mm512_storeu_si512(out + i, uncast_values(_mm256_loadu_si256((const __m256i *)(q + i)), scale));
  }
}

// One block of all rows, its sums in eight registers.
static inline void reduce_block(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                                __m512 factor, uint32_t start) {
  enum { PARTS = KERNEL_BLOCK / LANES };
  __m512 even[PARTS], odd[PARTS];
  for (int i = 0; i < PARTS; i++)
    even[i] = odd[i] = _mm512_set1_ps(-0.0f); // what added to any number, -0 too, gives that number
  for (uint32_t r = 0; r < count; r++) {
    const uint16_t *row = rows[r] + start;
    __m512 weight = _mm512_set1_ps(weights ? weights[r] : 1.0f);
    for (int i = 0; i < PARTS; i++) {
      __m512i x = _mm512_loadu_si512(row + i * LANES);
      __m512 low = even_values(x), high = odd_values(x);
      even[i] = _mm512_add_ps(even[i], weights ? _mm512_mul_ps(weight, low) : low);
      odd[i] = _mm512_add_ps(odd[i], weights ? _mm512_mul_ps(weight, high) : high);
    }
  }
  for (int i = 0; i < PARTS; i++)
    _mm512_storeu_si512(out + start + i * LANES,
                        round_values(_mm512_mul_ps(factor, even[i]), _mm512_mul_ps(factor, odd[i])));
}

static void avx512_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                          float factor, uint32_t hidden) {
  if (count == 0) {
    memset(out, 0, hidden * sizeof *out);
    return;
  }
  __m512 factors = _mm512_set1_ps(factor);
  if (weights)
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, weights, count, factors, start);
  else
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK)
      reduce_block(out, rows, NULL, count, factors, start);
}

const struct ep_kernels ep_kernels_avx512 = {
    .name = "avx512",
    .cast_fp8 = avx512_cast_fp8,
    .uncast_fp8 = avx512_uncast_fp8,
    .reduce = avx512_reduce,
    .copy = ep_kernels_copy,
};
