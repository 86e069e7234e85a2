// logfmt10 in portable C: the definition (device/logfmt10.h) step by step.
#include <math.h>

#include "ep/kernels/variants.h"

static float log_of(uint32_t magnitude) {
  if (magnitude < F32_NORMAL)
    return LOGFMT10_NOTHING;
  if (magnitude >= F32_EXPONENT)
    return LOGFMT10_WRONG;
  uint32_t sum = magnitude + LOGFMT10_CARRY;
  float t = float_of((sum & F32_FRACTION) + LOGFMT10_ROOT) - 1.0f;
  float log = fmaf(t, LOGFMT10_LOG_5, LOGFMT10_LOG_4);
  log = fmaf(t, log, LOGFMT10_LOG_3);
  log = fmaf(t, log, LOGFMT10_LOG_2);
  log = fmaf(t, log, LOGFMT10_LOG_1);
  log = fmaf(t, log, LOGFMT10_LOG_0);
  return fmaf(t, log, (float)((int32_t)(sum >> 23) - 127));
}

static void put_bit(uint8_t *bytes, uint32_t i, uint32_t bit) {
  bytes[i / 8] |= (uint8_t)(bit << i % 8);
}

static void encode_block(uint8_t *codes, float *head, const uint16_t *x) {
  float logs[KERNEL_BLOCK], high = LOGFMT10_NOTHING, least = LOGFMT10_WRONG;
  for (uint32_t i = 0; i < KERNEL_BLOCK; i++) {
    logs[i] = log_of((uint32_t)(x[i] & BF16_MAGNITUDE) << 16);
    high = logs[i] > high ? logs[i] : high;
    least = logs[i] > LOGFMT10_NOTHING && logs[i] < least ? logs[i] : least;
  }
  memset(codes, 0, LOGFMT10_CODE_BYTES);
  struct log_scale scale;
  if (!log_scale_make(&scale, head, high, least))
    return;
  for (uint32_t i = 0; i < KERNEL_BLOCK; i++) {
    float v = logs[i] - scale.low;
    float k = fmaf(v > 0.0f ? v : 0.0f, scale.inverse, scale.shift);
    uint32_t code = v < -1.0f ? 0 : (bits_of(k + LOGFMT10_ANCHOR) & 0x1FF) + 1;
    codes[i] = (uint8_t)code;
    put_bit(codes + LOGFMT10_BITS, i, code >> 8);
    put_bit(codes + LOGFMT10_SIGNS, i, x[i] >> 15);
  }
}

static uint32_t bit_of(const uint8_t *bytes, uint32_t i) {
  return bytes[i / 8] >> i % 8 & 1;
}

static uint16_t decode_value(uint32_t code, uint32_t sign, const float *head) {
  if (head[0] != head[0])
    return BF16_NAN;
  float y = fmaf((float)((int32_t)code - 1), head[1], head[0]);
  float anchored = y + LOGFMT10_ANCHOR, f = y - (anchored - LOGFMT10_ANCHOR);
  float exp = fmaf(f, LOGFMT10_EXP_4, LOGFMT10_EXP_3);
  exp = fmaf(f, exp, LOGFMT10_EXP_2);
  exp = fmaf(f, exp, LOGFMT10_EXP_1);
  exp = fmaf(f, exp, LOGFMT10_EXP_0);
  uint32_t bits = code == 0 ? 0 : bits_of(exp) + (bits_of(anchored) << 23);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 | sign << 15);
}

void ep_kernels_portable_encode10(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden) {
  for (; hidden > 0; hidden -= KERNEL_BLOCK, x += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2)
    encode_block(codes, heads, x);
}

void ep_kernels_portable_decode10(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden) {
  for (; hidden > 0; hidden -= KERNEL_BLOCK, out += KERNEL_BLOCK, codes += LOGFMT10_CODE_BYTES, heads += 2)
    for (uint32_t i = 0; i < KERNEL_BLOCK; i++)
      out[i] = decode_value(codes[i] | bit_of(codes + LOGFMT10_BITS, i) << 8, bit_of(codes + LOGFMT10_SIGNS, i), heads);
}
