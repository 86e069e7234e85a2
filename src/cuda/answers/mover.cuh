// How warps add rows: in registers, packet by packet.
//
// The work for one row is a *job*: its inputs, and the place of the result. Jobs are in shared memory, so that several
// warps can share one: each takes every n-th packet. Rows of a dispatch, which are not added, are copied through shared
// memory instead (stage.cuh).
#ifndef CUDA_ANSWERS_MOVER_CUH
#define CUDA_ANSWERS_MOVER_CUH

#include "cuda/dispatch/cast.cuh"
#include "cuda/throughput/job.cuh"

// RING: the memory is written by peers while the kernel runs; else the kernel only reads it.
template <bool RING> __device__ __forceinline__ uint4 mover_load(bool here, const char *from) {
  return RING ? ptx::load_line_if(here, from) : ptx::load_once16_if(here, from);
}

// Copies a row unchanged. [warp]
template <int LINES, bool RING>
__device__ __forceinline__ void move_row(const mover_job &job, uint32_t bytes, mover_share share) {
  constexpr uint32_t PACKET = LINES * MOVER_LINE;
  uint32_t outputs = job.outputs;
  const char *from = job.input[0];
#pragma unroll 1
  for (uint32_t at = share.first * PACKET + threadIdx.x % WARP * 16; at < bytes; at += share.step * PACKET) {
    uint4 v[LINES];
#pragma unroll
    for (int i = 0; i < LINES; i++)
      v[i] = mover_load<RING>(at + i * MOVER_LINE < bytes, from + at + i * MOVER_LINE);
#pragma unroll 1
    for (uint32_t o = 0; o < outputs; o++) {
      char *to = job.output[o] + at;
#pragma unroll
      for (int i = 0; i < LINES; i++)
        ptx::store16_if(at + i * MOVER_LINE < bytes, to + i * MOVER_LINE, v[i]);
    }
  }
}

// Adds a lane's part of a line. For answers, which peers write, and for biases each weight is 1.
template <int N, bool RING> __device__ __forceinline__ uint4 sum_line(const uint4 (&v)[N], const float (&weight)[N]) {
  if (RING)
    return sum8(v);
  float acc[8] = {};
#pragma unroll
  for (int n = 0; n < N; n++)
    add8(acc, v[n], weight[n]);
  return pack8(acc);
}

// Adds rows with exactly N inputs and without a factor, one line at a time. [warp]
template <int LINES, int N, bool RING>
__device__ __forceinline__ void add_rows_of(const mover_job &job, uint32_t bytes, mover_share share) {
  constexpr uint32_t PACKET = LINES * MOVER_LINE;
  float weight[N];
#pragma unroll
  for (int n = 0; n < N; n++)
    weight[n] = job.weight[n];
#pragma unroll 1
  for (uint32_t at = share.first * PACKET + threadIdx.x % WARP * 16; at < bytes; at += share.step * PACKET) {
    uint4 v[LINES][N];
#pragma unroll
    for (int n = 0; n < N; n++) {
      const char *from = job.input[n] + at;
#pragma unroll
      for (int i = 0; i < LINES; i++)
        v[i][n] = mover_load<RING>(at + i * MOVER_LINE < bytes, from + i * MOVER_LINE);
    }
    char *to = job.output[0] + at;
#pragma unroll
    for (int i = 0; i < LINES; i++)
      ptx::store16_if(at + i * MOVER_LINE < bytes, to + i * MOVER_LINE, sum_line<N, RING>(v[i], weight));
  }
}

// Adds rows with any number of inputs, four at a time. [warp]
template <bool RING>
__device__ __forceinline__ void add_many_rows(const mover_job &job, uint32_t bytes, mover_share share) {
  enum { LINES = 2, EACH = 4 };
  constexpr uint32_t PACKET = LINES * MOVER_LINE;
#pragma unroll 1
  for (uint32_t at = share.first * PACKET + threadIdx.x % WARP * 16; at < bytes; at += share.step * PACKET) {
    float acc[LINES][8] = {};
#pragma unroll 1
    for (uint32_t first = 0; first < job.inputs; first += EACH) {
      uint4 v[LINES][EACH];
#pragma unroll
      for (int n = 0; n < EACH; n++)
#pragma unroll
        for (int i = 0; i < LINES; i++)
          v[i][n] = mover_load<RING>(first + n < job.inputs && at + i * MOVER_LINE < bytes,
                                     job.input[min(first + n, MOVER_INPUTS - 1u)] + at + i * MOVER_LINE);
#pragma unroll
      for (int n = 0; n < EACH; n++) {
        if (first + n >= job.inputs)
          continue;
        float weight = job.weight[first + n];
#pragma unroll
        for (int i = 0; i < LINES; i++)
          add8(acc[i], v[i][n], weight);
        if (first + n + 1 == job.factor_at) {
#pragma unroll
          for (int i = 0; i < LINES; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
              acc[i][j] *= job.factor;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < LINES; i++)
      ptx::store16_if(at + i * MOVER_LINE < bytes, job.output[0] + at + i * MOVER_LINE, pack8(acc[i]));
  }
}

// Adds up the bf16 inputs in their order, in f32, each with its weight, and rounds once. [warp]
template <bool RING> __device__ __forceinline__ void add_job(const mover_job &job, uint32_t bytes, mover_share share) {
  switch (job.factor_at ? MOVER_INPUTS : job.inputs) {
  case 0: {
    char *to = job.output[0];
    for (uint32_t at = (share.first * WARP + threadIdx.x % WARP) * 16; at < bytes; at += share.step * MOVER_LINE)
      ptx::store16(to + at, make_uint4(0, 0, 0, 0));
    break;
  }
  case 1:
    add_rows_of<7, 1, RING>(job, bytes, share);
    break;
  case 2:
    add_rows_of<7, 2, RING>(job, bytes, share);
    break;
  case 3:
    add_rows_of<5, 3, RING>(job, bytes, share);
    break;
  case 4:
    add_rows_of<4, 4, RING>(job, bytes, share);
    break;
  case 5:
    add_rows_of<3, 5, RING>(job, bytes, share);
    break;
  case 6:
    add_rows_of<2, 6, RING>(job, bytes, share);
    break;
  case 7:
    add_rows_of<2, 7, RING>(job, bytes, share);
    break;
  case 8:
    add_rows_of<2, 8, RING>(job, bytes, share);
    break;
  default:
    add_many_rows<RING>(job, bytes, share);
  }
}

#endif
