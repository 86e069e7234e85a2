// The kernels for AVX2. A register of 16 bf16 is split into its even and its odd values, each as the upper half of an
// f32, by a shift and a mask; one blend joins them again. Only the conversions between 16 and 8 bits change the order.
#include <immintrin.h>

#include "ep/kernels/variants.h"

enum {
  LANES = 16,       // bf16 values of a register
  ODD_LANES = 0xAA, // of each 8, for a blend
};

static inline __m256i load(const void *from) {
  return _mm256_loadu_si256((const __m256i *)from);
}
static inline void store(void *to, __m256i value) {
  _mm256_storeu_si256((__m256i *)to, value);
}

static inline __m256 even_values(__m256i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
static inline __m256 odd_values(__m256i x) {
  return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xFFFF0000)));
}

// Magnitudes have 15 bits, so signed comparisons are correct.
static uint32_t block_amax(const uint16_t *x) {
  __m256i amax = _mm256_setzero_si256();
  for (int i = 0; i < KERNEL_BLOCK; i += LANES) {
    __m256i magnitude = _mm256_and_si256(load(x + i), _mm256_set1_epi16(BF16_MAGNITUDE));
    __m256i finite = _mm256_cmpgt_epi16(_mm256_set1_epi16(BF16_INFINITY), magnitude);
    amax = _mm256_max_epi16(amax, _mm256_and_si256(magnitude, finite));
  }
  __m128i half = _mm_max_epi16(_mm256_castsi256_si128(amax), _mm256_extracti128_si256(amax, 1));
  __m128i lowest = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1))); // the largest is the lowest complement
  return 0xFFFFu ^ (uint32_t)_mm_extract_epi16(lowest, 0);
}

// The codes, without CAST_BIAS, in the lower half of each lane; the upper half is not defined.
static inline __m256i cast_lanes(__m256 magnitude, __m256 inverse) {
  __m256 value = _mm256_min_ps(_mm256_mul_ps(magnitude, inverse), _mm256_set1_ps(448.0f)); // NaN gives 448
  __m256i power = _mm256_and_si256(_mm256_castps_si256(value), _mm256_set1_epi32(F32_EXPONENT));
  power = _mm256_max_epi32(power, _mm256_set1_epi32(E4M3_NORMAL_F32));
  __m256 anchor = _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_set1_epi32(CAST_LIFT)));
  __m256i steps = _mm256_castps_si256(_mm256_add_ps(value, anchor));
  return _mm256_add_epi32(steps, _mm256_srli_epi32(power, CAST_SHIFT));
}

// 16 codes, each in 16 bits.
static inline __m256i cast_values(__m256i x, __m256 inverse) {
  __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(BF16_MAGNITUDE));
  __m256i even = cast_lanes(even_values(magnitude), inverse);
  __m256i odd = cast_lanes(odd_values(magnitude), inverse);
  __m256i code = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), ODD_LANES);
  code = _mm256_sub_epi16(code, _mm256_set1_epi16(CAST_BIAS));
  __m256i nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(BF16_INFINITY));
  code = _mm256_blendv_epi8(code, _mm256_set1_epi16(E4M3_NAN), nan);
  return _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi16(x, 8), _mm256_set1_epi16(E4M3_SIGN)));
}

static void avx2_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2) {
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    __m256 inverse = _mm256_set1_ps(block_scale(block_amax(x + start), pow2, scales++));
    for (uint32_t i = start; i < start + KERNEL_BLOCK; i += 2 * LANES) {
      __m256i low = cast_values(load(x + i), inverse);
      __m256i high = cast_values(load(x + i + LANES), inverse);
      store(q + i, _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), _MM_SHUFFLE(3, 1, 2, 0)));
    }
  }
}

// bf16 bits of f32 values, in the upper half of each lane; the lower half is not defined.
static inline __m256i round_lanes(__m256 value) {
  __m256i bits = _mm256_castps_si256(value);
  __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), lowest);
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(BF16_NAN << 16), nan);
}

static inline __m256i round_values(__m256 even, __m256 odd) {
  return _mm256_blend_epi16(_mm256_srli_epi32(round_lanes(even), 16), round_lanes(odd), ODD_LANES);
}

// Takes magnitudes already shifted by UNCAST_SHIFT.
static inline __m256 uncast_lanes(__m256i magnitude) {
  __m256i denormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(UNCAST_LIFT), magnitude);
  __m256i bits = _mm256_add_epi32(magnitude, _mm256_set1_epi32(UNCAST_BIAS));
  bits = _mm256_add_epi32(bits, _mm256_and_si256(denormal, _mm256_set1_epi32(UNCAST_LIFT)));
  __m256 excess = _mm256_and_ps(_mm256_castsi256_ps(denormal), _mm256_set1_ps(0x1p-6f));
  return _mm256_sub_ps(_mm256_castsi256_ps(bits), excess);
}

static inline __m256i uncast_values(__m128i codes, __m256 scale) {
  __m256i q = _mm256_cvtepu8_epi16(codes);
  __m256i field = _mm256_set1_epi32(E4M3_NAN << UNCAST_SHIFT);
  __m256 even = uncast_lanes(_mm256_and_si256(_mm256_slli_epi32(q, UNCAST_SHIFT), field));
  __m256 odd = uncast_lanes(_mm256_and_si256(_mm256_slli_epi32(q, UNCAST_SHIFT - 16), field));
  __m256i out = round_values(_mm256_mul_ps(even, scale), _mm256_mul_ps(odd, scale));
  __m256i magnitude = _mm256_and_si256(q, _mm256_set1_epi16(E4M3_NAN));
  __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(E4M3_NAN));
  out = _mm256_blendv_epi8(out, _mm256_set1_epi16(BF16_NAN), nan);
  return _mm256_or_si256(out, _mm256_and_si256(_mm256_slli_epi16(q, 8), _mm256_set1_epi16((short)BF16_SIGN)));
}

static void avx2_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden) {
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK) {
    __m256 scale = _mm256_set1_ps(*scales++);
    for (uint32_t i = start; i < start + KERNEL_BLOCK; i += LANES)
      store(out + i, uncast_values(_mm_loadu_si128((const __m128i *)(q + i)), scale));
  }
}

// Sums half a block of all rows, with the sums in eight of the sixteen registers.
static inline void reduce_part(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                               __m256 factor, const uint16_t *const *biases, uint32_t num_biases, uint32_t start) {
  enum { PARTS = KERNEL_BLOCK / 2 / LANES };
  __m256 even[PARTS], odd[PARTS];
  for (int i = 0; i < PARTS; i++)
    even[i] = odd[i] = _mm256_set1_ps(-0.0f); // adding this to any number, also to -0, gives that number
  for (uint32_t r = 0; r < count; r++) {
    const uint16_t *row = rows[r] + start;
    __m256 weight = _mm256_set1_ps(weights ? weights[r] : 1.0f);
    for (int i = 0; i < PARTS; i++) {
      __m256i x = load(row + i * LANES);
      if (i % 2 == 0)
        _mm_prefetch(kernel_ahead(row + i * LANES, REDUCE_AHEAD), _MM_HINT_T0);
      __m256 low = even_values(x), high = odd_values(x);
      even[i] = _mm256_add_ps(even[i], weights ? _mm256_mul_ps(weight, low) : low);
      odd[i] = _mm256_add_ps(odd[i], weights ? _mm256_mul_ps(weight, high) : high);
    }
  }
  for (int i = 0; i < PARTS; i++) {
    even[i] = _mm256_mul_ps(factor, even[i]);
    odd[i] = _mm256_mul_ps(factor, odd[i]);
  }
  for (uint32_t b = 0; b < num_biases; b++)
    for (int i = 0; i < PARTS; i++) {
      __m256i x = load(biases[b] + start + i * LANES);
      even[i] = _mm256_add_ps(even[i], even_values(x));
      odd[i] = _mm256_add_ps(odd[i], odd_values(x));
    }
  for (int i = 0; i < PARTS; i++)
    store(out + start + i * LANES, round_values(even[i], odd[i]));
}

static void avx2_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                        uint32_t hidden) {
  if (count == 0) {
    memset(out, 0, hidden * sizeof *out);
    return;
  }
  __m256 factors = _mm256_set1_ps(factor);
  if (weights)
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK / 2)
      reduce_part(out, rows, weights, count, factors, NULL, 0, start);
  else
    for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK / 2)
      reduce_part(out, rows, NULL, count, factors, NULL, 0, start);
}

static void avx2_reduce_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                               const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden) {
  if (count == 0) {
    avx2_reduce(out, biases, NULL, num_biases, 1.0f, hidden);
    return;
  }
  for (uint32_t start = 0; start < hidden; start += KERNEL_BLOCK / 2)
    reduce_part(out, rows, NULL, count, _mm256_set1_ps(factor), biases, num_biases, start);
}

// --- logfmt10: eight values of a register, in their order ---

enum { WIDE = 8 };

static inline __m256 horner(__m256 x, __m256 sum, float next) {
  return _mm256_fmadd_ps(x, sum, _mm256_set1_ps(next));
}

static inline __m256 log_lanes(__m256i magnitude) {
  __m256i sum = _mm256_add_epi32(magnitude, _mm256_set1_epi32(LOGFMT10_CARRY));
  __m256i fraction = _mm256_and_si256(sum, _mm256_set1_epi32(F32_FRACTION));
  __m256 t = _mm256_castsi256_ps(_mm256_add_epi32(fraction, _mm256_set1_epi32(LOGFMT10_ROOT)));
  t = _mm256_sub_ps(t, _mm256_set1_ps(1.0f));
  __m256 log = horner(t, _mm256_set1_ps(LOGFMT10_LOG_5), LOGFMT10_LOG_4);
  log = horner(t, log, LOGFMT10_LOG_3);
  log = horner(t, log, LOGFMT10_LOG_2);
  log = horner(t, log, LOGFMT10_LOG_1);
  log = horner(t, log, LOGFMT10_LOG_0);
  __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32(sum, F32_FRACTION_BITS), _mm256_set1_epi32(127));
  log = _mm256_fmadd_ps(t, log, _mm256_cvtepi32_ps(exponent));
  __m256i nothing = _mm256_cmpgt_epi32(_mm256_set1_epi32(F32_NORMAL), magnitude);
  __m256i wrong = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(F32_EXPONENT - 1));
  log = _mm256_blendv_ps(log, _mm256_set1_ps(LOGFMT10_NOTHING), _mm256_castsi256_ps(nothing));
  return _mm256_blendv_ps(log, _mm256_set1_ps(LOGFMT10_WRONG), _mm256_castsi256_ps(wrong));
}

static inline __m256i load_wide(const uint16_t *x) {
  return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x)), 16);
}

static inline float largest(__m256 x) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}

// Writes the L of 128 values; returns how these are encoded.
static bool log_block(struct log_scale *scale, float *head, float *logs, const uint16_t *x) {
  __m256 high = _mm256_set1_ps(LOGFMT10_NOTHING), least = _mm256_set1_ps(-LOGFMT10_WRONG); // negative
  const __m256 nothing = _mm256_set1_ps(LOGFMT10_NOTHING), sign = _mm256_set1_ps(-0.0f);
  for (int i = 0; i < KERNEL_BLOCK; i += WIDE) {
    __m256 log = log_lanes(_mm256_and_si256(load_wide(x + i), _mm256_set1_epi32(BF16_MAGNITUDE << 16)));
    _mm256_store_ps(logs + i, log);
    high = _mm256_max_ps(high, log);
    __m256 some = _mm256_cmp_ps(log, nothing, _CMP_GT_OQ);
    least = _mm256_max_ps(least, _mm256_blendv_ps(least, _mm256_xor_ps(log, sign), some));
  }
  return log_scale_make(scale, head, largest(high), -largest(least));
}

static inline __m256i encode_lanes(const float *logs, const struct log_scale *scale) {
  __m256 v = _mm256_sub_ps(_mm256_load_ps(logs), _mm256_set1_ps(scale->low));
  __m256 none = _mm256_cmp_ps(v, _mm256_set1_ps(-1.0f), _CMP_LT_OQ);
  v = _mm256_max_ps(v, _mm256_setzero_ps());
  __m256 k = _mm256_fmadd_ps(v, _mm256_set1_ps(scale->inverse), _mm256_set1_ps(scale->shift));
  __m256i code = _mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(1));
  return _mm256_andnot_si256(_mm256_castps_si256(none), code);
}

static void avx2_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  _Alignas(32) float logs[KERNEL_BLOCK];
  for (; hidden > 0; hidden -= KERNEL_BLOCK, x += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2) {
    struct log_scale scale;
    if (!log_block(&scale, heads, logs, x)) {
      memset(codes, 0, LOGFMT10_CODE_BYTES);
      continue;
    }
    for (int i = 0; i < KERNEL_BLOCK; i += WIDE) {
      __m256i code = encode_lanes(logs + i, &scale);
      __m256i low = _mm256_shuffle_epi8(code, _mm256_set1_epi32(0x0C080400)); // four bytes, in each half
      _mm_storel_epi64((__m128i *)(codes + i),
                       _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
      __m256 bits = _mm256_castsi256_ps(_mm256_slli_epi32(code, 31 - 8));
      codes[LOGFMT10_BITS + i / 8] = (uint8_t)_mm256_movemask_ps(bits);
      codes[LOGFMT10_SIGNS + i / 8] = (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(load_wide(x + i)));
    }
  }
}

// `value` in the lanes whose bit is set.
static inline __m256i spread_bits(uint8_t bits, int value) {
  const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), places), places);
  return _mm256_and_si256(set, _mm256_set1_epi32(value));
}

// bf16 bits of eight values, in the lower half of each lane.
static inline __m256i decode_lanes(__m256i code, __m256i sign, __m256 low, __m256 step) {
  __m256 k = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(1)));
  __m256 y = _mm256_fmadd_ps(k, step, low), anchored = _mm256_add_ps(y, _mm256_set1_ps(LOGFMT10_ANCHOR));
  __m256 f = _mm256_sub_ps(y, _mm256_sub_ps(anchored, _mm256_set1_ps(LOGFMT10_ANCHOR)));
  __m256 exp = horner(f, _mm256_set1_ps(LOGFMT10_EXP_4), LOGFMT10_EXP_3);
  exp = horner(f, exp, LOGFMT10_EXP_2);
  exp = horner(f, exp, LOGFMT10_EXP_1);
  exp = horner(f, exp, LOGFMT10_EXP_0);
  __m256i power = _mm256_slli_epi32(_mm256_castps_si256(anchored), F32_FRACTION_BITS);
  __m256i bits = _mm256_add_epi32(_mm256_castps_si256(exp), power);
  __m256i zero = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
  bits = _mm256_andnot_si256(zero, bits);
  __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), lowest);
  return _mm256_or_si256(_mm256_srli_epi32(bits, 16), sign);
}

static void decode_block(uint16_t *out, const uint8_t *codes, const float *head) {
  __m256 low = _mm256_set1_ps(head[0]), step = _mm256_set1_ps(head[1]);
  for (int i = 0; i < KERNEL_BLOCK; i += WIDE) {
    __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + i)));
    code = _mm256_or_si256(code, spread_bits(codes[LOGFMT10_BITS + i / 8], 256));
    __m256i sign = spread_bits(codes[LOGFMT10_SIGNS + i / 8], BF16_SIGN);
    __m256i bits = decode_lanes(code, sign, low, step);
    _mm_storeu_si128((__m128i *)(out + i),
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
  }
}

static void avx2_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  for (; hidden > 0; hidden -= KERNEL_BLOCK, out += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2)
    if (heads[0] == heads[0])
      decode_block(out, codes, heads);
    else
      for (int i = 0; i < KERNEL_BLOCK; i += LANES)
        store(out + i, _mm256_set1_epi16(BF16_NAN));
}

// Streams from the beginning of a line on: a half line would leave the processor's buffer early.
static void avx2_stream(void *to, const void *from, size_t size) {
  size_t before = kernel_unaligned(to, 2 * sizeof(__m256i), size);
  const char *in = (const char *)from + before;
  char *out = (char *)to + before;
  memcpy(to, from, before);
  for (size -= before; size >= 64; size -= 64, in += 64, out += 64) {
    __m256i a = load(in), b = load(in + 32);
    _mm256_stream_si256((__m256i *)out, a);
    _mm256_stream_si256((__m256i *)(out + 32), b);
  }
  memcpy(out, in, size);
}

const struct ep_kernels ep_kernels_avx2 = {
    .name = "avx2",
    .cast_fp8 = avx2_cast_fp8,
    .uncast_fp8 = avx2_uncast_fp8,
    .reduce = avx2_reduce,
    .reduce_biased = avx2_reduce_biased,
    .encode10 = avx2_encode10,
    .decode10 = avx2_decode10,
    .copy = ep_kernels_copy,
    .stream = avx2_stream,
};
