// logfmt10 (device/logfmt10.h) on a GPU, with the bits of the host's kernels. Every product and sum is an intrinsic, so
// that the compiler fuses nothing of its own.
//
// Rows are handled in pieces of eight values, one for each thread; a block of 128 values is 16 pieces, of 16
// neighbouring lanes of a warp, the first of which is lane 0 or 16. All 16 encode together; any thread decodes any
// piece. The host's kernels encode rows that have been rounded to bf16, and round to bf16 what they decode; who wants
// the same bits does so too. coded.cuh cuts a row into packets that are rows of their own here.
#ifndef CUDA_FORMAT_CUH
#define CUDA_FORMAT_CUH

#include <cstdint>

#include "device/logfmt10.h"

// Values of a thread; threads of a block.
enum { LOGFMT10_PIECE = 8, LOGFMT10_PIECES = LOGFMT10_BLOCK / LOGFMT10_PIECE };

// Where the heads begin in a row.
__host__ __device__ __forceinline__ uint32_t logfmt10_heads(uint32_t hidden) {
  return hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
}

// L of the definition. The exponent becomes an f32 by being the lowest bits of 2^23.
__device__ __forceinline__ float logfmt10_log(float x) {
  uint32_t magnitude = __float_as_uint(x) & 0x7FFFFFFFu, sum = magnitude + LOGFMT10_CARRY;
  float t = __fadd_rn(__uint_as_float((sum & 0x007FFFFFu) + LOGFMT10_ROOT), -1.0f);
  float exponent = __fadd_rn(__uint_as_float(0x4B000000u | sum >> 23), -(8388608.0f + 127.0f));
  float log = __fmaf_rn(t, LOGFMT10_LOG_5, LOGFMT10_LOG_4);
  log = __fmaf_rn(t, log, LOGFMT10_LOG_3);
  log = __fmaf_rn(t, log, LOGFMT10_LOG_2);
  log = __fmaf_rn(t, log, LOGFMT10_LOG_1);
  log = __fmaf_rn(t, log, LOGFMT10_LOG_0);
  log = __fmaf_rn(t, log, exponent);
  return magnitude < 0x00800000u ? LOGFMT10_NOTHING : magnitude >= 0x7F800000u ? LOGFMT10_WRONG : log;
}

struct logfmt10_scale {
  float low, step, inverse, shift;
  bool wrong; // all codes are 0, and `low` is NaN
};

// Of the block with these extremes of L.
__device__ __forceinline__ logfmt10_scale logfmt10_make_scale(float high, float least) {
  logfmt10_scale scale;
  bool nothing = high <= LOGFMT10_NOTHING;
  scale.wrong = high >= LOGFMT10_WRONG;
  float lowest = __fadd_rn(high, -LOGFMT10_RANGE), low = nothing ? 0.0f : least > lowest ? least : lowest;
  float range = scale.wrong || nothing ? 0.0f : __fadd_rn(high, -low);
  scale.low = scale.wrong ? __uint_as_float(0x7FC00000u) : low;
  scale.step = __fmul_rn(range, LOGFMT10_PER_STEP);
  scale.inverse = range > 0.0f ? __fdiv_rn((float)LOGFMT10_STEPS, range) : 0.0f;
  scale.shift = __fmul_rn(scale.step, LOGFMT10_SHIFT);
  return scale;
}

// Code of a value with L `log`, in a block that is not wrong. The whole part of k is in the lowest bits of the sum.
__device__ __forceinline__ uint32_t logfmt10_code(float log, const logfmt10_scale &scale) {
  float v = __fadd_rn(log, -scale.low);
  float k = __fmaf_rn(fmaxf(v, 0.0f), scale.inverse, scale.shift);
  uint32_t code = (__float_as_uint(__fadd_rn(k, LOGFMT10_ANCHOR)) & 0x1FFu) + 1;
  return v < -1.0f ? 0 : code;
}

// Encodes piece `piece` of a row, which begins at `row` and is aligned to 8 bytes; x[i] is value 8 * piece + i. All 16
// lanes of the block call it together, lane l (in the warp) with a piece of which piece % 16 == l % 16.
__device__ __forceinline__ void logfmt10_encode(char *row, uint32_t hidden, uint32_t piece, const float x[8]) {
  uint32_t block = piece / LOGFMT10_PIECES, place = piece % LOGFMT10_PIECES;
  unsigned lanes = 0xFFFFu << (threadIdx.x & 16);
  float logs[8], high = LOGFMT10_NOTHING, least = LOGFMT10_WRONG;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    logs[i] = logfmt10_log(x[i]);
    high = fmaxf(high, logs[i]);
    least = fminf(least, logs[i] > LOGFMT10_NOTHING ? logs[i] : LOGFMT10_WRONG);
  }
#pragma unroll
  for (int other = LOGFMT10_PIECES / 2; other > 0; other /= 2) {
    high = fmaxf(high, __shfl_xor_sync(lanes, high, other));
    least = fminf(least, __shfl_xor_sync(lanes, least, other));
  }
  logfmt10_scale scale = logfmt10_make_scale(high, least);
  uint32_t low[2] = {0, 0}, bits = 0, signs = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t code = scale.wrong ? 0 : logfmt10_code(logs[i], scale);
    low[i / 4] |= (code & 0xFFu) << (i % 4 * 8);
    bits |= (code >> 8) << i;
    signs |= (__float_as_uint(x[i]) >> 31) << i;
  }
  char *codes = row + block * LOGFMT10_CODE_BYTES;
  *(uint2 *)(codes + place * LOGFMT10_PIECE) = make_uint2(low[0], low[1]);
  codes[LOGFMT10_BITS + place] = (char)bits;
  codes[LOGFMT10_SIGNS + place] = (char)(scale.wrong ? 0 : signs);
  if (place == 0)
    *(float2 *)(row + logfmt10_heads(hidden) + block * LOGFMT10_HEAD_BYTES) = make_float2(scale.low, scale.step);
}

// What a thread needs of a row to decode eight values.
struct logfmt10_piece {
  uint2 low;
  uint32_t bits, signs;
  float2 head;
};

// From a row, aligned to 8 bytes.
__device__ __forceinline__ logfmt10_piece logfmt10_load(const char *row, uint32_t hidden, uint32_t piece) {
  uint32_t block = piece / LOGFMT10_PIECES, place = piece % LOGFMT10_PIECES;
  const char *codes = row + block * LOGFMT10_CODE_BYTES;
  return {*(const uint2 *)(codes + place * LOGFMT10_PIECE), (uint8_t)codes[LOGFMT10_BITS + place],
          (uint8_t)codes[LOGFMT10_SIGNS + place],
          *(const float2 *)(row + logfmt10_heads(hidden) + block * LOGFMT10_HEAD_BYTES)};
}

// The eight values. Those of a wrong block are NaN.
__device__ __forceinline__ void logfmt10_decode(float x[8], const logfmt10_piece &piece) {
  uint32_t low[2] = {piece.low.x, piece.low.y};
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t code = (low[i / 4] >> (i % 4 * 8) & 0xFFu) | (piece.bits >> i & 1) << 8;
    float k = __fadd_rn(__uint_as_float(0x4B000000u | code), -(8388608.0f + 1.0f)); // code - 1
    float y = __fmaf_rn(k, piece.head.y, piece.head.x), anchored = __fadd_rn(y, LOGFMT10_ANCHOR);
    float f = __fadd_rn(y, -__fadd_rn(anchored, -LOGFMT10_ANCHOR));
    float exp = __fmaf_rn(f, LOGFMT10_EXP_4, LOGFMT10_EXP_3);
    exp = __fmaf_rn(f, exp, LOGFMT10_EXP_2);
    exp = __fmaf_rn(f, exp, LOGFMT10_EXP_1);
    exp = __fmaf_rn(f, exp, LOGFMT10_EXP_0);
    uint32_t value = code == 0 ? 0 : __float_as_uint(exp) + (__float_as_uint(anchored) << 23);
    x[i] = __uint_as_float(value | (piece.signs >> i & 1) << 31);
    if (piece.head.x != piece.head.x)
      x[i] = __uint_as_float(0x7FC00000u);
  }
}

#endif
