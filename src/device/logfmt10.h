// logfmt10: 128 values as signs and magnitudes of 9 bits, evenly spaced in log2. All kernels of the host give the same
// bits, since all of them compute as written here: everything is f32 arithmetic, each operation is rounded to nearest
// even, and multiply-adds are fused where `fma` is written, and nowhere else. A GPU reads and writes the same codes
// with its own log2 and exp2 (cuda/kernels/format.cuh): its results are within the bounds below, but not equal to the
// bit.
//
// A block of 128 values has 160 bytes of codes and a head of two f32, `low` and `step`. Value i has the code c, of 9
// bits: 0 is zero, and c from 1 to 511 is 2^(low + (c - 1) * step).
//   bytes 0 to 127     bits 0 to 7 of the codes: value i in byte i
//   bytes 128 to 143   bit 8 of the codes: value i in bit i % 8 of byte 128 + i / 8
//   bytes 144 to 159   signs: the sign of value i in bit i % 8 of byte 144 + i / 8
// A row has the codes of all its blocks, then all heads.
//
// Encoding. L(x), about log2 |x|, for f32 bits b of |x|:
//   b below 2^-126: LOGFMT10_NOTHING (denormal numbers count as zero); infinite or NaN: LOGFMT10_WRONG; else
//   s = b + LOGFMT10_CARRY; e = (s >> 23) - 127; t = float((s & 0x7FFFFF) + LOGFMT10_ROOT) - 1, so that x is about
//   2^e (1 + t), t from sqrt(1/2) - 1 to sqrt(2) - 1; L = fma(t, log(t), e), log by Horner's rule in fma
// A block: high = the largest L, least = the smallest L above NOTHING.
//   high == WRONG: low = NaN, step = 0, all codes and signs 0: the block comes back as 128 NaN, so that a row which is
//   worth nothing does not look like one that is
//   high == NOTHING: low = step = 0
//   else low = max(least, high - 32), range = high - low, step = range * LOGFMT10_PER_STEP; inverse = 510 / range, 0
//   for range 0; shift = step * LOGFMT10_SHIFT
// A value: v = L - low; v < -1: code 0; else k = fma(max(v, 0), inverse, shift), rounded to nearest even; code k + 1.
// The shift moves the rounding's threshold from the middle between two codes in log2 to the middle between the values
// that they stand for: log2((1 + 2^step) / 2) / step is 1/2 + step * ln 2 / 8 + O(step^3).
//
// Decoding. y = fma(code - 1, step, low); n = y rounded to nearest even; f = y - n; the value is 2^n * exp(f), exp by
// Horner's rule in fma; code 0 is 0; then the sign. low NaN: NaN.
//
// Error: with r = 2^step, a value of at least 2^low is off by at most its (r - 1) / (r + 1), about step * ln 2 / 2
// (0.022 for the largest step, 32 / 510), and LOGFMT10_SLACK of it for the arithmetic. What is smaller, in a block
// whose range was cut to 2^32, is off by at most 2^(low - 1). The largest and, if nothing was cut, the smallest
// magnitude of a block of bf16 values come back as they were. On a GPU what is smaller than 2^low is off by at most
// that, and step is no less than 1/8 of LOGFMT10_PER_STEP.
#ifndef DEVICE_LOGFMT10_H
#define DEVICE_LOGFMT10_H

enum {
  LOGFMT10_BLOCK = 128,
  LOGFMT10_CODE_BYTES = 160, // of a block
  LOGFMT10_HEAD_BYTES = 8,
  LOGFMT10_BITS = 128, // where bit 8 of the codes begins
  LOGFMT10_SIGNS = 144,
  LOGFMT10_STEPS = 510,

  LOGFMT10_ROOT = 0x3F3504F3,  // sqrt(1/2) as f32 bits
  LOGFMT10_CARRY = 0x004AFB0D, // 1.0's bits less those
};

#define LOGFMT10_NOTHING  (-1000.0f)
#define LOGFMT10_WRONG    1000.0f
#define LOGFMT10_RANGE    32.0f
#define LOGFMT10_PER_STEP 0x1.010102p-9f   // 1 / 510
#define LOGFMT10_SHIFT    (-0x1.62e43p-4f) // -ln 2 / 8
#define LOGFMT10_SLACK    0x1p-15f
#define LOGFMT10_ANCHOR   0x1.8p23f // added to a number of less than 2^22, it leaves its whole part in the lowest bits

// Coefficients of the highest power first. log(t) is log2(1 + t) / t within 2^-18.6 / |t|; exp(f) is 2^f, for |f| up to
// 1/2, within 2^-18.5 of itself (both minimax).
#define LOGFMT10_LOG_5 (-0x1.a79f5ap-3f)
#define LOGFMT10_LOG_4 0x1.49a8b4p-2f
#define LOGFMT10_LOG_3 (-0x1.783082p-2f)
#define LOGFMT10_LOG_2 0x1.eae25ap-2f
#define LOGFMT10_LOG_1 (-0x1.713934p-1f)
#define LOGFMT10_LOG_0 0x1.715598p+0f
#define LOGFMT10_EXP_4 0x1.3997d6p-7f
#define LOGFMT10_EXP_3 0x1.ca144p-5f
#define LOGFMT10_EXP_2 0x1.ec06dap-3f
#define LOGFMT10_EXP_1 0x1.62e0dcp-1f
#define LOGFMT10_EXP_0 0x1.ffffe8p-1f

#endif
