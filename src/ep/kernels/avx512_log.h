// logfmt10 for both AVX-512 variants: sixteen values of a register, in their order.
#ifndef EP_KERNELS_AVX512_LOG_H
#define EP_KERNELS_AVX512_LOG_H

#include "ep/kernels/avx512.h"

enum { LOG_LANES = 16, LOG_PARTS = KERNEL_BLOCK / LOG_LANES };

INLINE __m512 horner(__m512 x, __m512 sum, float next) {
  return _mm512_fmadd_ps(x, sum, _mm512_set1_ps(next));
}

INLINE __m512 log_lanes(__m512i magnitude) {
  __m512i sum = _mm512_add_epi32(magnitude, _mm512_set1_epi32(LOGFMT10_CARRY));
  __m512i fraction = _mm512_and_si512(sum, _mm512_set1_epi32(F32_FRACTION));
  __m512 t = _mm512_castsi512_ps(_mm512_add_epi32(fraction, _mm512_set1_epi32(LOGFMT10_ROOT)));
  t = _mm512_sub_ps(t, _mm512_set1_ps(1.0f));
  __m512 log = horner(t, _mm512_set1_ps(LOGFMT10_LOG_5), LOGFMT10_LOG_4);
  log = horner(t, log, LOGFMT10_LOG_3);
  log = horner(t, log, LOGFMT10_LOG_2);
  log = horner(t, log, LOGFMT10_LOG_1);
  log = horner(t, log, LOGFMT10_LOG_0);
  __m512i exponent = _mm512_sub_epi32(_mm512_srli_epi32(sum, F32_FRACTION_BITS), _mm512_set1_epi32(127));
  log = _mm512_fmadd_ps(t, log, _mm512_cvtepi32_ps(exponent));
  __mmask16 nothing = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(F32_NORMAL));
  __mmask16 wrong = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(F32_EXPONENT));
  log = _mm512_mask_mov_ps(log, nothing, _mm512_set1_ps(LOGFMT10_NOTHING));
  return _mm512_mask_mov_ps(log, wrong, _mm512_set1_ps(LOGFMT10_WRONG));
}

INLINE __m512i load_wide(const uint16_t *x) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)), 16);
}

INLINE void encode_lanes(uint8_t *codes, int i, __m512 log, __m512i x, const struct log_scale *scale) {
  __m512 v = _mm512_sub_ps(log, _mm512_set1_ps(scale->low));
  __mmask16 some = _mm512_cmp_ps_mask(v, _mm512_set1_ps(-1.0f), _CMP_GE_OQ);
  v = _mm512_max_ps(v, _mm512_setzero_ps());
  __m512 k = _mm512_fmadd_ps(v, _mm512_set1_ps(scale->inverse), _mm512_set1_ps(scale->shift));
  __m512i code = _mm512_maskz_add_epi32(some, _mm512_cvtps_epi32(k), _mm512_set1_epi32(1));
  _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtepi32_epi8(code));
  uint16_t bits = _mm512_test_epi32_mask(code, _mm512_set1_epi32(256)), signs = _mm512_movepi32_mask(x);
  memcpy(codes + LOGFMT10_BITS + i / 8, &bits, sizeof bits);
  memcpy(codes + LOGFMT10_SIGNS + i / 8, &signs, sizeof signs);
}

INLINE void encode_row(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  for (; hidden > 0; hidden -= KERNEL_BLOCK, x += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2) {
    __m512 log[LOG_PARTS], high = _mm512_set1_ps(LOGFMT10_NOTHING), least = _mm512_set1_ps(LOGFMT10_WRONG);
    for (int i = 0; i < LOG_PARTS; i++) {
      log[i] = log_lanes(_mm512_and_si512(load_wide(x + i * LOG_LANES), _mm512_set1_epi32(BF16_MAGNITUDE << 16)));
      high = _mm512_max_ps(high, log[i]);
      __mmask16 some = _mm512_cmp_ps_mask(log[i], _mm512_set1_ps(LOGFMT10_NOTHING), _CMP_GT_OQ);
      least = _mm512_mask_min_ps(least, some, least, log[i]);
    }
    struct log_scale scale;
    if (!log_scale_make(&scale, heads, _mm512_reduce_max_ps(high), _mm512_reduce_min_ps(least))) {
      memset(codes, 0, LOGFMT10_CODE_BYTES);
      continue;
    }
    for (int i = 0; i < LOG_PARTS; i++)
      encode_lanes(codes, i * LOG_LANES, log[i], load_wide(x + i * LOG_LANES), &scale);
  }
}

// bf16 bits of sixteen values, without their signs, in the lower half of each lane.
INLINE __m512i decode_lanes(__m512i code, __m512 low, __m512 step) {
  __m512 k = _mm512_cvtepi32_ps(_mm512_sub_epi32(code, _mm512_set1_epi32(1)));
  __m512 y = _mm512_fmadd_ps(k, step, low), anchored = _mm512_add_ps(y, _mm512_set1_ps(LOGFMT10_ANCHOR));
  __m512 f = _mm512_sub_ps(y, _mm512_sub_ps(anchored, _mm512_set1_ps(LOGFMT10_ANCHOR)));
  __m512 exp = horner(f, _mm512_set1_ps(LOGFMT10_EXP_4), LOGFMT10_EXP_3);
  exp = horner(f, exp, LOGFMT10_EXP_2);
  exp = horner(f, exp, LOGFMT10_EXP_1);
  exp = horner(f, exp, LOGFMT10_EXP_0);
  __m512i power = _mm512_slli_epi32(_mm512_castps_si512(anchored), F32_FRACTION_BITS);
  __mmask16 some = _mm512_test_epi32_mask(code, code);
  __m512i bits = _mm512_maskz_add_epi32(some, _mm512_castps_si512(exp), power);
  return _mm512_srli_epi32(round_numbers(_mm512_castsi512_ps(bits)), 16);
}

INLINE void decode_block(uint16_t *out, const uint8_t *codes, const float *head) {
  for (int i = 0; i < KERNEL_BLOCK; i += LOG_LANES) {
    uint16_t bits, signs;
    memcpy(&bits, codes + LOGFMT10_BITS + i / 8, sizeof bits);
    memcpy(&signs, codes + LOGFMT10_SIGNS + i / 8, sizeof signs);
    __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + i)));
    code = _mm512_mask_or_epi32(code, bits, code, _mm512_set1_epi32(256));
    __m512i value = decode_lanes(code, _mm512_set1_ps(head[0]), _mm512_set1_ps(head[1]));
    value = _mm512_mask_or_epi32(value, signs, value, _mm512_set1_epi32(BF16_SIGN));
    _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtepi32_epi16(value));
  }
}

INLINE void decode_row(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  for (; hidden > 0; hidden -= KERNEL_BLOCK, out += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2)
    if (heads[0] == heads[0])
      decode_block(out, codes, heads);
    else
      for (int i = 0; i < KERNEL_BLOCK; i += LANES)
        _mm512_storeu_si512(out + i, _mm512_set1_epi16(BF16_NAN));
}

#endif
