// Formats that a GPU shares with the host's kernels, bit for bit: scales as ue8m0 bytes, and logfmt10
// (device/logfmt10.h). Every product and sum is an intrinsic, so that the compiler fuses nothing of its own.
//
// Who calls what. Rows are handled in pieces of eight values, one for each thread; a block of 128 values is 16 pieces,
// of 16 neighbouring lanes of a warp, the first of which is lane 0 or 16.
//   dispatch, cast of a row    ue8m0_block_scale by all 16 lanes in the place of block_scale (cast.cuh); then
//                              ue8m0_store by the first of them. A row's scales have ue8m0_bytes(hidden) bytes, behind
//                              its values; the receiver copies them as words
//   combine, at the experts    logfmt10_encode by all 16 lanes, with the reduced values of their piece: to a row in
//                              shared memory, logfmt10_row_bytes(hidden) long, that is sent as it stands
//   combine, at the source     logfmt10_load and logfmt10_decode by any thread, for any piece of a row that came
// The host's kernels encode rows that have been rounded to bf16, and round to bf16 what they decode. Who wants the same
// bits does so too (pack8 of cast.cuh before and after); values that are not rounded are within the same bound.
#ifndef CUDA_FORMAT_CUH
#define CUDA_FORMAT_CUH

#include <cstdint>

#include "device/logfmt10.h"

// --- ue8m0: exponent + 127 of a scale that is a power of two ---

// Of the row's scales: a byte for each 128 values, padded to whole words.
__host__ __device__ __forceinline__ uint32_t ue8m0_bytes(uint32_t hidden) {
  return (hidden + 511) / 512 * 4;
}

// The scale of a block whose largest finite magnitude has the bf16 bits `amax`, as a byte, and the factor that values
// are multiplied by: those of WEFT_EP_FP8_POW2.
__device__ __forceinline__ uint32_t ue8m0_block_scale(uint32_t amax, float *inverse) {
  float ratio = __fdiv_rn(fmaxf(__uint_as_float(amax << 16), 1e-4f), 448.0f);
  uint32_t exponent = (__float_as_uint(ratio) + 0x007FFFFFu) >> 23; // one higher if there is a fraction
  *inverse = __uint_as_float((254u - exponent) << 23);
  return exponent;
}

// Puts the byte of block `block`, of `blocks`, into the row's scales. Who has the last block fills up its word.
__device__ __forceinline__ void ue8m0_store(void *scales, uint32_t block, uint32_t blocks, uint32_t byte) {
  uint8_t *bytes = (uint8_t *)scales;
  bytes[block] = (uint8_t)byte;
  if (block + 1 == blocks)
    for (uint32_t pad = blocks; pad % 4 != 0; pad++)
      bytes[pad] = 0;
}

// --- logfmt10 ---

// Values of a thread; threads of a block.
enum { LOGFMT10_PIECE = 8, LOGFMT10_PIECES = LOGFMT10_BLOCK / LOGFMT10_PIECE };

// Where the heads begin in a row, and its bytes: a multiple of 8.
__host__ __device__ __forceinline__ uint32_t logfmt10_heads(uint32_t hidden) {
  return hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
}
__host__ __device__ __forceinline__ uint32_t logfmt10_row_bytes(uint32_t hidden) {
  return logfmt10_heads(hidden) + hidden / LOGFMT10_BLOCK * LOGFMT10_HEAD_BYTES;
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

// From a row in global memory that another processor wrote, aligned to 8 bytes: past the first-level cache.
__device__ __forceinline__ logfmt10_piece logfmt10_load(const char *row, uint32_t hidden, uint32_t piece) {
  uint32_t block = piece / LOGFMT10_PIECES, place = piece % LOGFMT10_PIECES;
  const char *codes = row + block * LOGFMT10_CODE_BYTES;
  logfmt10_piece p;
  p.low = __ldcg((const uint2 *)(codes + place * LOGFMT10_PIECE));
  p.bits = __ldcg((const unsigned char *)(codes + LOGFMT10_BITS + place));
  p.signs = __ldcg((const unsigned char *)(codes + LOGFMT10_SIGNS + place));
  p.head = __ldcg((const float2 *)(row + logfmt10_heads(hidden) + block * LOGFMT10_HEAD_BYTES));
  return p;
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
