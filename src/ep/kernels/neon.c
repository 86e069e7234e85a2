// The kernels with NEON, which every arm64 processor has. Only logfmt10 is written here, since no compiler vectorises
// its bit operations and branches. gcc vectorises everything else, so the portable kernels are used for the rest.
#include <arm_neon.h>

#include "ep/kernels/variants.h"

enum { WIDE = 8 }; // values of a step, in two registers

static inline float32x4_t horner(float32x4_t x, float32x4_t sum, float next) {
  return vfmaq_f32(vdupq_n_f32(next), x, sum);
}

static inline float32x4_t log_lanes(uint32x4_t magnitude) {
  uint32x4_t sum = vaddq_u32(magnitude, vdupq_n_u32(LOGFMT10_CARRY));
  uint32x4_t fraction = vandq_u32(sum, vdupq_n_u32(F32_FRACTION));
  float32x4_t t = vreinterpretq_f32_u32(vaddq_u32(fraction, vdupq_n_u32(LOGFMT10_ROOT)));
  t = vsubq_f32(t, vdupq_n_f32(1.0f));
  float32x4_t log = horner(t, vdupq_n_f32(LOGFMT10_LOG_5), LOGFMT10_LOG_4);
  log = horner(t, log, LOGFMT10_LOG_3);
  log = horner(t, log, LOGFMT10_LOG_2);
  log = horner(t, log, LOGFMT10_LOG_1);
  log = horner(t, log, LOGFMT10_LOG_0);
  int32x4_t exponent = vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(sum, F32_FRACTION_BITS)), vdupq_n_s32(127));
  log = vfmaq_f32(vcvtq_f32_s32(exponent), t, log);
  log = vbslq_f32(vcltq_u32(magnitude, vdupq_n_u32(F32_NORMAL)), vdupq_n_f32(LOGFMT10_NOTHING), log);
  return vbslq_f32(vcgeq_u32(magnitude, vdupq_n_u32(F32_EXPONENT)), vdupq_n_f32(LOGFMT10_WRONG), log);
}

// Writes the L of 128 values; returns how these are encoded.
static bool log_block(struct log_scale *scale, float *head, float *logs, const uint16_t *x) {
  float32x4_t high = vdupq_n_f32(LOGFMT10_NOTHING), least = vdupq_n_f32(LOGFMT10_WRONG);
  const float32x4_t nothing = high, wrong = least;
  for (int i = 0; i < KERNEL_BLOCK; i += 4) {
    uint32x4_t magnitude = vshll_n_u16(vand_u16(vld1_u16(x + i), vdup_n_u16(BF16_MAGNITUDE)), 16);
    float32x4_t log = log_lanes(magnitude);
    vst1q_f32(logs + i, log);
    high = vmaxq_f32(high, log);
    least = vminq_f32(least, vbslq_f32(vcgtq_f32(log, nothing), log, wrong));
  }
  return log_scale_make(scale, head, vmaxvq_f32(high), vminvq_f32(least));
}

static inline uint16x4_t encode_lanes(const float *logs, const struct log_scale *scale) {
  float32x4_t v = vsubq_f32(vld1q_f32(logs), vdupq_n_f32(scale->low));
  uint32x4_t none = vcltq_f32(v, vdupq_n_f32(-1.0f));
  v = vmaxq_f32(v, vdupq_n_f32(0.0f));
  float32x4_t k = vfmaq_f32(vdupq_n_f32(scale->shift), v, vdupq_n_f32(scale->inverse));
  uint32x4_t code = vreinterpretq_u32_s32(vaddq_s32(vcvtnq_s32_f32(k), vdupq_n_s32(1)));
  return vmovn_u32(vbicq_u32(code, none));
}

// Makes one bit of each value: 1 if its mask is set.
static inline uint8_t gather_bits(uint16x8_t masks, uint16x8_t places) {
  return (uint8_t)vaddvq_u16(vandq_u16(masks, places));
}

static void neon_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  static const uint16_t powers[WIDE] = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint16x8_t places = vld1q_u16(powers);
  float logs[KERNEL_BLOCK];
  for (; hidden > 0; hidden -= KERNEL_BLOCK, x += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2) {
    struct log_scale scale;
    if (!log_block(&scale, heads, logs, x)) {
      memset(codes, 0, LOGFMT10_CODE_BYTES);
      continue;
    }
    for (int i = 0; i < KERNEL_BLOCK; i += WIDE) {
      uint16x8_t code = vcombine_u16(encode_lanes(logs + i, &scale), encode_lanes(logs + i + 4, &scale));
      vst1_u8(codes + i, vmovn_u16(code));
      codes[LOGFMT10_BITS + i / 8] = gather_bits(vtstq_u16(code, vdupq_n_u16(256)), places);
      codes[LOGFMT10_SIGNS + i / 8] = gather_bits(vtstq_u16(vld1q_u16(x + i), vdupq_n_u16(BF16_SIGN)), places);
    }
  }
}

// bf16 bits of four values, without their signs.
static inline uint16x4_t decode_lanes(uint16x4_t codes, float32x4_t low, float32x4_t step) {
  uint32x4_t code = vmovl_u16(codes);
  float32x4_t k = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(code), vdupq_n_s32(1)));
  float32x4_t y = vfmaq_f32(low, k, step), anchored = vaddq_f32(y, vdupq_n_f32(LOGFMT10_ANCHOR));
  float32x4_t f = vsubq_f32(y, vsubq_f32(anchored, vdupq_n_f32(LOGFMT10_ANCHOR)));
  float32x4_t exp = horner(f, vdupq_n_f32(LOGFMT10_EXP_4), LOGFMT10_EXP_3);
  exp = horner(f, exp, LOGFMT10_EXP_2);
  exp = horner(f, exp, LOGFMT10_EXP_1);
  exp = horner(f, exp, LOGFMT10_EXP_0);
  uint32x4_t power = vshlq_n_u32(vreinterpretq_u32_f32(anchored), F32_FRACTION_BITS);
  uint32x4_t bits = vaddq_u32(vreinterpretq_u32_f32(exp), power);
  bits = vandq_u32(bits, vtstq_u32(code, code));
  uint32x4_t lowest = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  return vshrn_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), lowest), 16);
}

// `value` in the lanes whose bit is set.
static inline uint16x8_t spread_bits(uint8_t bits, uint16x8_t places, uint16_t value) {
  return vandq_u16(vtstq_u16(vdupq_n_u16(bits), places), vdupq_n_u16(value));
}

static void decode_block(uint16_t *out, const uint8_t *codes, const float *head, uint16x8_t places) {
  float32x4_t low = vdupq_n_f32(head[0]), step = vdupq_n_f32(head[1]);
  for (int i = 0; i < KERNEL_BLOCK; i += WIDE) {
    uint16x8_t code = vorrq_u16(vmovl_u8(vld1_u8(codes + i)), spread_bits(codes[LOGFMT10_BITS + i / 8], places, 256));
    uint16x8_t bits =
        vcombine_u16(decode_lanes(vget_low_u16(code), low, step), decode_lanes(vget_high_u16(code), low, step));
    vst1q_u16(out + i, vorrq_u16(bits, spread_bits(codes[LOGFMT10_SIGNS + i / 8], places, BF16_SIGN)));
  }
}

static void neon_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  static const uint16_t powers[WIDE] = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint16x8_t places = vld1q_u16(powers);
  for (; hidden > 0; hidden -= KERNEL_BLOCK, out += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2)
    if (heads[0] == heads[0])
      decode_block(out, codes, heads, places);
    else
      for (int i = 0; i < KERNEL_BLOCK; i += WIDE)
        vst1q_u16(out + i, vdupq_n_u16(BF16_NAN));
}

const struct ep_kernels ep_kernels_neon = {
    .name = "neon",
    .cast_fp8 = ep_kernels_portable_cast_fp8,
    .uncast_fp8 = ep_kernels_portable_uncast_fp8,
    .reduce = ep_kernels_portable_reduce,
    .reduce_biased = ep_kernels_portable_reduce_biased,
    .encode10 = neon_encode10,
    .decode10 = neon_decode10,
    .copy = ep_kernels_copy,
    .stream = ep_kernels_copy,
};
