// bf16 and e4m3 in registers.
#ifndef CUDA_DISPATCH_CAST_CUH
#define CUDA_DISPATCH_CAST_CUH

#include <cuda_fp8.h>

#include "cuda/kernels/ptx.cuh"

__device__ __forceinline__ float bf16_low(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float bf16_high(uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
}

__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ uint32_t to_e4m3_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
#endif
}

// The largest finite magnitude of sixteen bf16 values, as bf16 bits.
static __device__ __noinline__ uint32_t finite_amax_of(uint4 a, uint4 b) {
  uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t magnitude = words[i] & 0x7FFF7FFFu;
    magnitude &= __vcmpltu2(magnitude, 0x7F807F80u);
    most = __vmaxu2(most, magnitude);
  }
  return max(most & 0xFFFF, most >> 16);
}

__device__ __forceinline__ uint32_t max_pair(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
  uint32_t most;
  asm("max.u16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  return most;
#else
  return __vmaxu2(a, b);
#endif
}

__device__ __forceinline__ uint32_t max_signed_pair(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
  uint32_t most;
  asm("max.s16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  return most;
#else
  return __vmaxs2(a, b);
#endif
}

__device__ __forceinline__ uint32_t amax_pair(uint4 v) {
  return max_pair(max_pair(v.x & 0x7FFF7FFFu, v.y & 0x7FFF7FFFu), max_pair(v.z & 0x7FFF7FFFu, v.w & 0x7FFF7FFFu));
}

// The largest magnitude of sixteen values, finite or not.
__device__ __forceinline__ uint32_t amax_of(uint4 a, uint4 b) {
  uint32_t pair = max_pair(amax_pair(a), amax_pair(b));
  return max(pair & 0xFFFF, pair >> 16);
}
__device__ __forceinline__ bool is_finite(uint32_t amax) {
  return amax < 0x7F80;
}

// As in ep/kernels/kernels.h: the scale of a block, and the factor with which values are multiplied.
__device__ __forceinline__ float block_scale(uint32_t amax, bool pow2, float *inverse) {
  float most = fmaxf(__uint_as_float(amax << 16), 1e-4f);
  // most / 448, rounded like a division: one Newton step, which is exact since `most` is far from the limits of the
  // range.
  const float RECIPROCAL = 1.0f / 448.0f;
  float ratio = __fmul_rn(most, RECIPROCAL);
  ratio = __fmaf_rn(__fmaf_rn(-448.0f, ratio, most), RECIPROCAL, ratio);
  // 448 / most in the same way, with both numbers scaled down so that the reciprocal is not subnormal.
  const float SMALLER = 0x1p-30f;
  float by = most * SMALLER, once = ptx::reciprocal(by);
  once = __fmaf_rn(__fmaf_rn(-by, once, 1.0f), once, once);
  float quotient = __fmul_rn(448.0f * SMALLER, once);
  quotient = __fmaf_rn(__fmaf_rn(-by, quotient, 448.0f * SMALLER), once, quotient);
  uint32_t exponent = (__float_as_uint(ratio) + 0x007FFFFFu) & 0x7F800000u;
  *inverse = pow2 ? __uint_as_float((254u << 23) - exponent) : quotient;
  return pow2 ? __uint_as_float(exponent) : ratio;
}

// The ue8m0 byte of a power of two.
__device__ __forceinline__ uint32_t ue8m0_of(float scale) {
  return __float_as_uint(scale) >> 23;
}

// Eight values to eight codes.
__device__ __forceinline__ uint2 cast8(uint4 v, float inverse) {
  uint2 out;
  out.x = to_e4m3_pair(__fmul_rn(bf16_low(v.x), inverse), __fmul_rn(bf16_high(v.x), inverse)) |
          to_e4m3_pair(__fmul_rn(bf16_low(v.y), inverse), __fmul_rn(bf16_high(v.y), inverse)) << 16;
  out.y = to_e4m3_pair(__fmul_rn(bf16_low(v.z), inverse), __fmul_rn(bf16_high(v.z), inverse)) |
          to_e4m3_pair(__fmul_rn(bf16_low(v.w), inverse), __fmul_rn(bf16_high(v.w), inverse)) << 16;
  return out;
}

__device__ __forceinline__ void add8(float acc[8], uint4 v, float weight) {
  uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    acc[2 * i] = fmaf(weight, bf16_low(words[i]), acc[2 * i]);
    acc[2 * i + 1] = fmaf(weight, bf16_high(words[i]), acc[2 * i + 1]);
  }
}

__device__ __forceinline__ uint4 pack8(const float acc[8]) {
  return make_uint4(to_bf16_pair(acc[0], acc[1]), to_bf16_pair(acc[2], acc[3]), to_bf16_pair(acc[4], acc[5]),
                    to_bf16_pair(acc[6], acc[7]));
}

// Adds two pairs of values like add8() and pack8() with a weight of 1, with one instruction for both. The sum of two
// bf16 rounded to f32 and then to bf16 is the exact sum rounded once, since f32 has at least two bits more than twice
// those of bf16 (S. Figueroa, "When is double rounding innocuous?", 1995). Then 0 is added, since a sum that begins
// with 0 is never -0.
__device__ __forceinline__ uint32_t add_pair(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm("{\n.reg .b32 s;\nfma.rn.bf16x2 s, %1, %3, %2;\nfma.rn.bf16x2 %0, s, %3, %4;\n}"
      : "=r"(sum)
      : "r"(a), "r"(b), "r"(0x3F803F80), "r"(0)); // 1 and 1; 0 and 0
  return sum;
}

// Adds up N vectors of eight values, in their order, in f32, rounded once.
template <int N> __device__ __forceinline__ uint4 sum8(const uint4 (&v)[N]) {
  float acc[8] = {};
#pragma unroll
  for (int n = 0; n < N; n++)
    add8(acc, v[n], 1.0f);
  return pack8(acc);
}
template <> __device__ __forceinline__ uint4 sum8<2>(const uint4 (&v)[2]) {
  return make_uint4(add_pair(v[0].x, v[1].x), add_pair(v[0].y, v[1].y), add_pair(v[0].z, v[1].z),
                    add_pair(v[0].w, v[1].w));
}

#endif
