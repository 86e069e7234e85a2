// The formats of dispatch in double precision, as in their definitions.
#include "ep/oracle/format.h"
#include "ep/oracle/oracle.h"

double oracle_bf16(uint16_t bits) {
  return format_bf16_value(bits);
}

uint16_t oracle_to_bf16(double value) {
  if (isnan(value))
    return 0x7FC0;
  double rounded = fabs(value) >= 0x1p128 ? INFINITY : format_bf16_round(fabs(value));
  float narrow = (float)copysign(rounded, value); // exact; 2^128 becomes infinite
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  return (uint16_t)(bits >> 16);
}

// Four bits of exponent with bias 7, three of fraction; exponent 0 is denormal, all ones is NaN.
double oracle_e4m3(uint8_t bits) {
  int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7)
    return NAN;
  double magnitude = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t oracle_to_e4m3(double value) {
  uint8_t sign = signbit(value) ? 0x80 : 0;
  if (isnan(value))
    return sign | 0x7F;
  double magnitude = fabs(value) < 448 ? fabs(value) : 448;
  double rounded = format_round(magnitude, format_power(magnitude, 0x1p-6) * 0x1p-3);
  if (rounded < 0x1p-6)
    return sign | (uint8_t)(rounded * 0x1p9); // denormal: in units of 2^-9
  uint64_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  return sign | (uint8_t)(((bits >> 52) - 1023 + 7) << 3 | (bits >> 49 & 7));
}

// Quotients and products of two f32, rounded from double, are those of f32 arithmetic: 53 bits are enough for that.
static float block_scale(const uint16_t *x, bool pow2, float *inverse) {
  double amax = (double)1e-4f;
  for (int i = 0; i < WEFT_EP_BLOCK; i++) {
    double magnitude = fabs(format_bf16_value(x[i]));
    if (isfinite(magnitude) && magnitude > amax)
      amax = magnitude;
  }
  if (!pow2) {
    *inverse = (float)(448 / amax);
    return (float)(amax / 448);
  }
  int exponent;
  double fraction = frexp(amax / 448, &exponent); // in [0.5, 1)
  if (fraction == 0.5)
    exponent--;
  *inverse = (float)ldexp(1, -exponent);
  return (float)ldexp(1, exponent);
}

void oracle_cast(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, enum weft_ep_dtype dtype) {
  for (uint32_t start = 0; start < hidden; start += WEFT_EP_BLOCK) {
    float inverse;
    *scales++ = block_scale(x + start, dtype != WEFT_EP_FP8, &inverse);
    for (uint32_t i = start; i < start + WEFT_EP_BLOCK; i++)
      q[i] = oracle_to_e4m3((double)(float)(format_bf16_value(x[i]) * (double)inverse));
  }
}

size_t oracle_pack_scales(uint8_t *packed, const float *scales, uint32_t hidden) {
  size_t blocks = hidden / WEFT_EP_BLOCK, size = (blocks + 3) / 4 * 4;
  memset(packed, 0, size);
  for (size_t b = 0; b < blocks; b++)
    packed[b] = (uint8_t)(ilogb((double)scales[b]) + 127);
  return size;
}

void oracle_uncast(double *row, const uint8_t *q, const float *scales, uint32_t hidden) {
  double values[256];
  for (int code = 0; code < 256; code++)
    values[code] = oracle_e4m3((uint8_t)code);
  for (uint32_t i = 0; i < hidden; i++)
    row[i] = format_bf16_value(oracle_to_bf16((double)(float)(values[q[i]] * (double)scales[i / WEFT_EP_BLOCK])));
}

double oracle_calc_diff(const double *a, const double *b, size_t count) {
  double cross = 0, squares = 0;
  for (size_t i = 0; i < count; i++) {
    cross += (a[i] + 1) * (b[i] + 1);
    squares += (a[i] + 1) * (a[i] + 1) + (b[i] + 1) * (b[i] + 1);
  }
  return squares == 0 ? 0 : 1 - 2 * cross / squares;
}
