// The kernels for AVX-512 with VBMI, which moves bytes between any places, and BF16, which rounds to bf16.
#include "ep/kernels/avx512_log.h"

// Unjoined codes of 32 values: each 64 bits have four numbers of steps, then the four exponents for them.
INLINE __m512i cast_values(__m512i x, __m512 inverse) {
  // Bit offsets of the eight bytes: steps at 0 of each half; the exponent's lowest bits, times 8, at 20.
  const __m512i places = _mm512_set1_epi64(0x3434141420200000);
  __m512i even = _mm512_multishift_epi64_epi8(places, cast_lanes(even_values(x), inverse));
  return _mm512_mask_multishift_epi64_epi8(even, 0xAAAAAAAAAAAAAAAA, places, cast_lanes(odd_values(x), inverse));
}

INLINE __m512i every_second(__m512i low, __m512i high, int first) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  return _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(first)), high);
}

INLINE void cast_block(uint8_t *q, const uint16_t *x, __m512 inverse) {
  static const uint8_t upper[64] = {1,  3,  5,   7,   9,   11,  13,  15,  17,  19,  21,  23,  25,  27,  29,  31,
                                    33, 35, 37,  39,  41,  43,  45,  47,  49,  51,  53,  55,  57,  59,  61,  63,
                                    65, 67, 69,  71,  73,  75,  77,  79,  81,  83,  85,  87,  89,  91,  93,  95,
                                    97, 99, 101, 103, 105, 107, 109, 111, 113, 115, 117, 119, 121, 123, 125, 127};
  for (int i = 0; i < KERNEL_BLOCK; i += 2 * LANES) {
    __m512i low = _mm512_loadu_si512(x + i), high = _mm512_loadu_si512(x + i + LANES);
    __m512i first = cast_values(low, inverse), second = cast_values(high, inverse);
    __m512i steps = every_second(first, second, 0), exponents = every_second(first, second, 1);
    __m512i code = _mm512_add_epi8(steps, exponents);
    __m512i signs = _mm512_permutex2var_epi8(low, _mm512_loadu_si512(upper), high);
    enum { A_OR_B_AND_C = 0xF8 };
    code = _mm512_ternarylogic_epi32(code, signs, _mm512_set1_epi8((char)E4M3_SIGN), A_OR_B_AND_C);
    _mm512_storeu_si512(q + i, code);
  }
}

// Treats denormal numbers as zeros, and keeps the payload of a NaN.
INLINE __m512i round_fast(__m512 even, __m512 odd) {
  static const uint16_t order[LANES] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

INLINE __mmask16 wrong(__m512 sums) {
  return _mm512_fpclass_ps_mask(sums, CLASS_NAN | CLASS_DENORMAL);
}

static void avx512_bf16_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2) {
  cast_row(q, scales, x, hidden, pow2, cast_block);
}

static void avx512_bf16_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  uncast_row(out, q, scales, hidden);
}

static void avx512_bf16_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                               float factor, uint32_t hidden) {
  reduce_row(out, rows, weights, count, factor, hidden, round_fast, wrong);
}

static void avx512_bf16_reduce_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                                      const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden) {
  reduce_row_biased(out, rows, count, factor, biases, num_biases, hidden, round_fast, wrong);
}

static void avx512_bf16_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  encode_row(codes, heads, x, hidden);
}

static void avx512_bf16_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  decode_row(out, codes, heads, hidden);
}

static void avx512_bf16_copy(void *to, const void *from, size_t size) {
  copy_bytes(to, from, size);
}

static void avx512_bf16_stream(void *to, const void *from, size_t size) {
  stream_bytes(to, from, size);
}

const struct ep_kernels ep_kernels_avx512_bf16 = {
    .name = "avx512-bf16",
    .cast_fp8 = avx512_bf16_cast_fp8,
    .uncast_fp8 = avx512_bf16_uncast_fp8,
    .reduce = avx512_bf16_reduce,
    .reduce_biased = avx512_bf16_reduce_biased,
    .encode10 = avx512_bf16_encode10,
    .decode10 = avx512_bf16_decode10,
    .copy = avx512_bf16_copy,
    .stream = avx512_bf16_stream,
};
