// logfmt10 (device/logfmt10.h) on a GPU, with the GPU's own log2 and exp2. The results are as exact as those of the
// host's kernels, but not bit for bit the same: a code may differ by one if a value lies between two codes, and a
// decoded value may differ in the last bit of bf16.
//
// Values are handled in pieces of eight bf16, one for each thread; a block of 128 values is 16 pieces. The number of
// instructions limits the speed of encoding. So pairs of values are processed as the halves of a word where possible:
// magnitudes of bf16 have the same order as their bits, and a code is the lowest bits of the f16 number code + 1,024.
// combine/coded.cuh divides a row into packets; each packet is a row of its own here.
#ifndef CUDA_KERNELS_FORMAT_CUH
#define CUDA_KERNELS_FORMAT_CUH

#include <cstdint>

#include <cuda_fp16.h>

#include "cuda/dispatch/cast.cuh"
#include "device/logfmt10.h"

// The f16 number 1,024, in both halves.
#define LOGFMT10_F16 0x64006400u

// Values of a thread; threads of a block of 128 values.
enum { LOGFMT10_PIECE = 8, LOGFMT10_PIECES = LOGFMT10_BLOCK / LOGFMT10_PIECE };

// Where the heads begin in a row.
__host__ __device__ __forceinline__ uint32_t logfmt10_heads(uint32_t hidden) {
  return hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
}

// The extremes of eight values. Upper half: the largest magnitude. Lower half: 807F minus the least normal magnitude;
// negative if there is no normal one. So the extremes of several words are the maxima of their halves.
__device__ __forceinline__ uint32_t logfmt10_extremes(uint4 v) {
  uint32_t m[4] = {v.x & 0x7FFF7FFFu, v.y & 0x7FFF7FFFu, v.z & 0x7FFF7FFFu, v.w & 0x7FFF7FFFu};
  uint32_t high = max_signed_pair(max_signed_pair(m[0], m[1]), max_signed_pair(m[2], m[3]));
  uint32_t least = max_signed_pair(max_signed_pair(0x807F807Fu - m[0], 0x807F807Fu - m[1]),
                                   max_signed_pair(0x807F807Fu - m[2], 0x807F807Fu - m[3]));
  return max_signed_pair(__byte_perm(least, high, 0x5410), __byte_perm(least, high, 0x7632));
}

// The scale of a block: `low` and `step` of the definition, and x and y. A value with the logarithm L has the code L *
// x + y - 1024, rounded, or 0 if that is negative. If the block contains infinity or NaN, `low` and x are NaN.
struct logfmt10_scale {
  float2 head, line;
};

// Makes the scale of the block with these extremes. A very small range would need more bits than an f32 has.
__device__ __forceinline__ logfmt10_scale logfmt10_make_scale(uint32_t extremes) {
  uint32_t least = 0x807Fu - (extremes & 0xFFFF);
  bool nothing = extremes < 0x0080u << 16, wrong = extremes >= 0x7F80u << 16;
  float high = ptx::log2_of(bf16_high(extremes));
  float low = fmaxf(ptx::log2_of(bf16_low(least)), high - LOGFMT10_RANGE);
  low = wrong ? __uint_as_float(0x7FC00000u) : nothing ? 0.0f : low;
  float range = nothing ? 0.0f : high - low;
  range = wrong ? range : fmaxf(range, 1.0f / 8.0f); // fmaxf would not return NaN
  float step = wrong || nothing ? 0.0f : range * LOGFMT10_PER_STEP, inverse = LOGFMT10_STEPS * ptx::reciprocal(range);
  return {make_float2(low, step), make_float2(inverse, fmaf(-low, inverse, fmaf(step, LOGFMT10_SHIFT, 1025.0f)))};
}

// Each lane keeps one of its two values and gives the other one to the lane `step` away. Returns the maximum of the
// kept value and the one that the other lane gives.
__device__ __forceinline__ uint32_t keep_one(bool second, uint32_t a, uint32_t b, int step) {
  return max_signed_pair(second ? b : a, __shfl_xor_sync(~0u, second ? a : b, step));
}

// The scales of eight blocks. Each half of a warp has one block in each of its four pieces. The first two steps of the
// search distribute the pieces over the lanes; in the end lane i of the half has the scale of piece i. [warp]
__device__ __forceinline__ logfmt10_scale logfmt10_scale_blocks(const uint4 (&v)[4], uint32_t lane) {
  uint32_t e[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    e[i] = logfmt10_extremes(v[i]);
  uint32_t most = keep_one(lane & 2, keep_one(lane & 1, e[0], e[1], 1), keep_one(lane & 1, e[2], e[3], 1), 2);
  most = max_signed_pair(most, __shfl_xor_sync(~0u, most, 4));
  most = max_signed_pair(most, __shfl_xor_sync(~0u, most, 8));
  return logfmt10_make_scale(most);
}

// The codes of a pair of values, each as the f16 number code + 1,024. The maximum of NaN and a number is the number.
__device__ __forceinline__ uint32_t logfmt10_codes(uint32_t pair, float2 line) {
  float first = fmaf(ptx::log2_of(bf16_low(pair)), line.x, line.y);
  float second = fmaf(ptx::log2_of(bf16_high(pair)), line.x, line.y);
  uint32_t codes;
  asm("{\n.reg .b32 t;\ncvt.rn.f16x2.f32 t, %2, %1;\nmax.f16x2 %0, t, %3;\n}"
      : "=r"(codes)
      : "f"(first), "f"(second), "r"(LOGFMT10_F16));
  return codes;
}

// The lowest bits of the four bytes of `a`, followed by those of `b`, as eight bits. `otherwise`: the value of the
// bytes without these bits.
__device__ __forceinline__ uint32_t logfmt10_gather(uint32_t a, uint32_t b, uint32_t otherwise) {
  const uint32_t TO_TOP = 0x01020408;
  return ((a + b * 16) * TO_TOP - otherwise * 17 * TO_TOP) >> 24;
}

// The encoded form of a piece.
struct logfmt10_piece {
  uint2 low;
  uint32_t bits, signs; // one byte each
};

__device__ __forceinline__ logfmt10_piece logfmt10_encode(uint4 v, float2 line) {
  uint32_t codes[4] = {logfmt10_codes(v.x, line), logfmt10_codes(v.y, line), logfmt10_codes(v.z, line),
                       logfmt10_codes(v.w, line)};
  uint32_t first = __byte_perm(v.x, v.y, 0x7531) >> 7 & 0x01010101u;
  uint32_t second = __byte_perm(v.z, v.w, 0x7531) >> 7 & 0x01010101u;
  return {make_uint2(__byte_perm(codes[0], codes[1], 0x6420), __byte_perm(codes[2], codes[3], 0x6420)),
          logfmt10_gather(__byte_perm(codes[0], codes[1], 0x7531), __byte_perm(codes[2], codes[3], 0x7531),
                          (LOGFMT10_F16 >> 24) * 0x01010101u),
          logfmt10_gather(first, second, 0)};
}

// Stores piece `piece` into a row, which is aligned to 8 bytes.
__device__ __forceinline__ void logfmt10_store(char *row, uint32_t piece, const logfmt10_piece &coded) {
  uint32_t place = piece % LOGFMT10_PIECES;
  char *codes = row + piece / LOGFMT10_PIECES * LOGFMT10_CODE_BYTES;
  *(uint2 *)(codes + place * LOGFMT10_PIECE) = coded.low;
  codes[LOGFMT10_BITS + place] = (char)coded.bits;
  codes[LOGFMT10_SIGNS + place] = (char)coded.signs;
}

// Loads it from the row.
__device__ __forceinline__ logfmt10_piece logfmt10_load(const char *row, uint32_t piece) {
  uint32_t place = piece % LOGFMT10_PIECES;
  const char *codes = row + piece / LOGFMT10_PIECES * LOGFMT10_CODE_BYTES;
  return {*(const uint2 *)(codes + place * LOGFMT10_PIECE), (uint8_t)codes[LOGFMT10_BITS + place],
          (uint8_t)codes[LOGFMT10_SIGNS + place]};
}

// The magnitudes of two values, as bf16, computed from k of the definition. `head`: low and step.
__device__ __forceinline__ uint32_t logfmt10_magnitudes(float2 k, float2 head) {
  return to_bf16_pair(ptx::exp2_of(fmaf(k.x, head.y, head.x)), ptx::exp2_of(fmaf(k.y, head.y, head.x)));
}

// Four bits as the upper bytes of four codes in f16 form.
__device__ __forceinline__ uint32_t logfmt10_spread(uint32_t bits) {
  return ((bits & 15) * 0x00204081u & 0x01010101u) | (LOGFMT10_F16 >> 24) * 0x01010101u;
}

// The eight values, as bf16. If the encoded block contained infinity or NaN, they are NaN.
__device__ __forceinline__ uint4 logfmt10_decode(const logfmt10_piece &piece, float2 head) {
  uint32_t high[2] = {logfmt10_spread(piece.bits), logfmt10_spread(piece.bits >> 4)};
  uint32_t words[4], wrong = head.x == head.x ? 0 : ~0u;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    uint32_t pair = __byte_perm(i < 2 ? piece.low.x : piece.low.y, high[i / 2], i % 2 == 0 ? 0x5140 : 0x7362);
    __half2 codes = *(const __half2 *)&pair;
    float2 k = __half22float2(__hsub2(codes, __float2half2_rn(1025.0f)));
    words[i] = logfmt10_magnitudes(k, head) & (__hne2_mask(codes, __float2half2_rn(1024.0f)) | wrong);
    words[i] |= piece.signs * ((1u << (15 - 2 * i)) + (1u << (30 - 2 * i))) & 0x80008000u;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

#endif
