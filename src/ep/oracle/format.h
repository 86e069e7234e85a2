// bf16 rounding in double, inline for the loops of the judge.
#ifndef EP_ORACLE_FORMAT_H
#define EP_ORACLE_FORMAT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// A bf16 is the upper half of an f32.
static inline double format_bf16_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

// The largest power of two that is not above |value|, but at least `lowest`: a double with its exponent only.
static inline double format_power(double value, double lowest) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits &= 0x7FF0000000000000u;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power > lowest ? power : lowest;
}

// Rounds to the nearest multiple of `step`, a power of two, ties to even: the number that is added and subtracted again
// has `step` as the unit of its last place. |value| has to be below 2^51 steps. Returns +0 for -0.
static inline double format_round(double value, double step) {
  double anchor = 0x1.8p52 * step;
  return (value + anchor) - anchor;
}

// Distance of the bf16 numbers around `value`: 8 bits of precision, the lowest normal number 2^-126.
static inline double format_bf16_step(double value) {
  return format_power(value, 0x1p-126) * 0x1p-7;
}

// Rounds a finite value to bf16 without a limit of the exponent: 2^128 or more means overflow.
static inline double format_bf16_round(double value) {
  return format_round(value, format_bf16_step(value));
}

#endif
