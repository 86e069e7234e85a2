// The kernels for AVX-512 (F, BW, VL, DQ).
#include "ep/kernels/avx512_log.h"

// 32 codes.
INLINE __m256i cast_values(__m512i x, __m512 inverse) {
  __m512i even = cast_lanes(even_values(x), inverse), odd = cast_lanes(odd_values(x), inverse);
  even = _mm512_add_epi32(even, _mm512_srli_epi32(even, CAST_SHIFT));
  odd = _mm512_add_epi32(odd, _mm512_srli_epi32(odd, CAST_SHIFT));
  __m512i code = _mm512_mask_blend_epi16(ODD_LANES, even, _mm512_slli_epi32(odd, 16));
  __m512i sign = _mm512_and_si512(_mm512_srli_epi16(x, 8), _mm512_set1_epi16(E4M3_SIGN));
  return _mm512_cvtepi16_epi8(_mm512_or_si512(code, sign));
}

INLINE void cast_block(uint8_t *q, const uint16_t *x, __m512 inverse) {
  for (int i = 0; i < KERNEL_BLOCK; i += LANES)
    _mm256_storeu_si256((__m256i *)(q + i), cast_values(_mm512_loadu_si512(x + i), inverse));
}

INLINE __m512i round_fast(__m512 even, __m512 odd) {
  return join_lanes(round_numbers(even), round_numbers(odd));
}

INLINE __mmask16 wrong(__m512 sums) {
  return _mm512_fpclass_ps_mask(sums, CLASS_NAN);
}

static void avx512_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2) {
  cast_row(q, scales, x, hidden, pow2, cast_block);
}

static void avx512_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  uncast_row(out, q, scales, hidden);
}

static void avx512_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                          float factor, uint32_t hidden) {
  reduce_row(out, rows, weights, count, factor, hidden, round_fast, wrong);
}

static void avx512_reduce_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                                 const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden) {
  reduce_row_biased(out, rows, count, factor, biases, num_biases, hidden, round_fast, wrong);
}

static void avx512_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  encode_row(codes, heads, x, hidden);
}

static void avx512_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  decode_row(out, codes, heads, hidden);
}

static void avx512_copy(void *to, const void *from, size_t size) {
  copy_bytes(to, from, size);
}

static void avx512_stream(void *to, const void *from, size_t size) {
  stream_bytes(to, from, size);
}

const struct ep_kernels ep_kernels_avx512 = {
    .name = "avx512",
    .cast_fp8 = avx512_cast_fp8,
    .uncast_fp8 = avx512_uncast_fp8,
    .reduce = avx512_reduce,
    .reduce_biased = avx512_reduce_biased,
    .encode10 = avx512_encode10,
    .decode10 = avx512_decode10,
    .copy = avx512_copy,
    .stream = avx512_stream,
};
