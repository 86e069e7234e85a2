// What the variants share: the scale of a block, which all of them compute with scalar arithmetic, and the constants of
// the formats.
#ifndef EP_KERNELS_VARIANTS_H
#define EP_KERNELS_VARIANTS_H

#include <string.h>

#include "device/logfmt10.h"
#include "ep/kernels/kernels.h"

extern const struct ep_kernels ep_kernels_portable;
#if defined(__x86_64__)
extern const struct ep_kernels ep_kernels_avx2;
extern const struct ep_kernels ep_kernels_avx512;
extern const struct ep_kernels ep_kernels_avx512_bf16;
#elif defined(__aarch64__)
extern const struct ep_kernels ep_kernels_neon;
#endif

void ep_kernels_portable_cast_fp8(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2);
void ep_kernels_portable_uncast_fp8(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden);
void ep_kernels_portable_reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count,
                                float factor, uint32_t hidden);
void ep_kernels_portable_reduce_biased(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                                       const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden);
void ep_kernels_portable_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden);
void ep_kernels_portable_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden);
void ep_kernels_copy(void *to, const void *from, size_t size); // of the C library

enum {
  KERNEL_BLOCK = 128, // values that share one scale
  REDUCE_AHEAD = 512, // bytes to prefetch ahead: sums read many rows at once

  BF16_MAGNITUDE = 0x7FFF,
  BF16_SIGN = 0x8000,
  BF16_INFINITY = 0x7F80,
  BF16_NAN = 0x7FC0,

  E4M3_NAN = 0x7F, // also the mask of the magnitude
  E4M3_SIGN = 0x80,
  E4M3_NORMAL_F32 = 121 << 23, // 2^-6, the lowest normal e4m3 value, as the bits of an f32
  E4M3_MOST_F32 = 0x43E00000,  // 448, the greatest, as the bits of an f32

  F32_EXPONENT = 0x7F800000,
  F32_FRACTION = 0x007FFFFF,
  F32_NORMAL = 0x00800000, // 2^-126
  F32_FRACTION_BITS = 23,

  // How f32 is rounded to e4m3. Let E be the exponent of a value v, at least -6. e4m3 counts in steps of 2^(E-3) there,
  // and so does f32 at 2^(E+20): the sum v + 2^(E+20) is v rounded as e4m3 asks, with the number of steps in its lowest
  // bits (8 to 16 for normal numbers, 0 to 8 for denormal ones). The code is that number + 8 * (E + 6).
  // CAST_LIFT makes 2^(E+20) of the f32 bits of 2^E. These shifted right by CAST_SHIFT are 8 * (E + 127), of which
  // CAST_BIAS makes 8 * (E + 6).
  CAST_LIFT = 20 << 23,
  CAST_SHIFT = 20,
  CAST_BIAS = 121 << 3,
  // If the exponent of the sum itself is shifted right by CAST_SHIFT instead, its lowest eight bits are too large by
  // this.
  CAST_LIFTED_BIAS = (141 << 3) & 0xFF,

  // How e4m3 becomes f32: the seven bits of the magnitude, shifted left by UNCAST_SHIFT, plus UNCAST_BIAS. A denormal
  // number is lifted by one exponent, which gives it a leading 1 that is worth 2^-6, and loses that again in a
  // subtraction.
  UNCAST_SHIFT = 20,
  UNCAST_BIAS = 120 << 23,
  UNCAST_LIFT = 1 << 23, // also the lowest normal magnitude, shifted
};

// The address `bytes` after `at`, for a prefetch. A row is longer than a page, and processors do not prefetch past the
// end of a page by themselves. The address may lie behind the row: nothing is read there.
static inline const char *kernel_ahead(const void *at, size_t bytes) {
  return (const char *)((uintptr_t)at + bytes);
}

// How many of `size` bytes at `to` lie before the first multiple of `unit`, a power of two.
static inline size_t kernel_unaligned(const void *to, size_t unit, size_t size) {
  size_t before = -(uintptr_t)to & (unit - 1);
  return before < size ? before : size;
}

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The scale of a block whose largest finite magnitude has the bf16 bits `amax`. Returns the inverse.
static inline float block_scale(uint32_t amax, bool pow2, float *scale) {
  float most = float_of(amax << 16);
  if (most < 1e-4f)
    most = 1e-4f;
  float ratio = most / 448.0f;
  if (!pow2) {
    *scale = ratio;
    return 448.0f / most;
  }
  // The next power of two is the exponent, one higher if there is a fraction. It lies between 2^-22 and 2^120, so that
  // its inverse, too, is a normal number.
  uint32_t exponent = (bits_of(ratio) + 0x007FFFFF) & F32_EXPONENT;
  *scale = float_of(exponent);
  return float_of((254u << 23) - exponent);
}

// Computes how the values of a logfmt10 block are encoded; their largest L is `high`, and their smallest `least`.
// False: they are not encoded, since one of them is no number.
struct log_scale {
  float low, inverse, shift;
};

static inline bool log_scale_make(struct log_scale *scale, float *head, float high, float least) {
  bool wrong = high >= LOGFMT10_WRONG, nothing = high <= LOGFMT10_NOTHING;
  float lowest = high - LOGFMT10_RANGE, low = nothing ? 0.0f : least > lowest ? least : lowest;
  float range = wrong || nothing ? 0.0f : high - low, step = range * LOGFMT10_PER_STEP;
  head[0] = wrong ? float_of(BF16_NAN << 16) : low;
  head[1] = step;
  *scale = (struct log_scale){
      .low = low, .inverse = range > 0.0f ? LOGFMT10_STEPS / range : 0.0f, .shift = step * LOGFMT10_SHIFT};
  return !wrong;
}

#endif
