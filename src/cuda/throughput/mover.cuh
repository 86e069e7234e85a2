// How a warp moves rows: through its registers, packet by packet, cast or added on the way.
//
// A row's work is a *job*: its inputs, and where the result goes. What is known of a job stands in shared memory, so
// that several warps can share one: each takes every n-th packet.
//
// Registers rather than bulk copies: measured on two H100s, a processor stores as fast by either (45 GB/s to its own
// memory), and ordinary stores need neither stages in shared memory, of which there would be too few for as many warps
// as it takes, nor fences between the two ways to memory, of 1,000 to 3,000 cycles each. What a processor stores to
// other GPUs holds up what it stores to its own, so blocks do one of both. A release at system scope takes 7,000
// cycles; without it rows come late, also when all bulk stores have ended.
#ifndef CUDA_THROUGHPUT_MOVER_CUH
#define CUDA_THROUGHPUT_MOVER_CUH

#include "cuda/dispatch/cast.cuh"
#include "cuda/kernels/packet.cuh"
#include "cuda/throughput/op.h"

enum {
  MOVER_LINE = WARP * 16,           // bytes, 16 a lane
  MOVER_INPUTS = CUDA_MAX_TOPK + 2, // ranks or experts, and biases
  MOVER_OUTPUTS = CUDA_MAX_TOPK,
};

// In shared memory.
struct mover_job {
  const char *input[MOVER_INPUTS];
  float weight[MOVER_INPUTS];
  uint32_t inputs, outputs;
  float factor;
  uint32_t factor_at;     // after so many inputs the sum is multiplied by `factor`; 0: never
  uint32_t source, token; // seat, or 0; the token, or the row's number in its channel
  uint64_t seats;         // that the job concerns
  char *output[MOVER_OUTPUTS];
  uint64_t scales_at[MOVER_OUTPUTS]; // elements: where the scales of an output go; or an address
};

// Which packets of a job are a warp's.
struct mover_share {
  uint32_t first, step;
};

// RING: of what peers write while the kernel runs, else what it only reads.
template <bool RING> __device__ __forceinline__ uint4 mover_load(bool here, const char *from) {
  return RING ? ptx::load_line_if(here, from) : ptx::load_input16_if(here, from);
}

// A row as it is. [warp]
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

// Rows of exactly N inputs, and without a factor: each line is done at once. [warp]
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
    for (int i = 0; i < LINES; i++) {
      float acc[8] = {};
#pragma unroll
      for (int n = 0; n < N; n++)
        add8(acc, v[i][n], weight[n]);
      ptx::store16_if(at + i * MOVER_LINE < bytes, to + i * MOVER_LINE, pack8(acc));
    }
  }
}

// Rows of any number of inputs, four at a time. [warp]
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

// The inputs of bf16 added up in their order, in f32, each with its weight, rounded once. [warp]
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

// The largest magnitude of a block's values that are finite. [warp]
static __device__ __noinline__ uint32_t finite_over_block(uint4 v) {
  uint32_t most = finite_amax_of(v, make_uint4(0, 0, 0, 0));
#pragma unroll 1
  for (int step = 8; step > 0; step /= 2)
    most = max(most, __shfl_xor_sync(~0u, most, step));
  return most;
}

// A row of bf16 as e4m3, with scales of the dtype. `scale_stride`: elements from a scale to the next at the address
// scales_at[o] of output o. [warp]
static __device__ __forceinline__ void cast_row(const mover_job &job, uint32_t hidden, int dtype, uint32_t scale_stride,
                                                mover_share share) {
  enum { LINES = 4 };
  uint32_t lane = threadIdx.x % WARP, blocks = hidden / CUDA_BLOCK, outputs = job.outputs;
#pragma unroll 1
  for (uint32_t first = share.first * 2 * LINES; first < blocks; first += share.step * 2 * LINES) {
    const char *from = job.input[0] + (size_t)first * 2 * CUDA_BLOCK + lane * 16;
    uint4 v[LINES];
    uint32_t most[LINES];
    bool finite = true;
#pragma unroll
    for (int i = 0; i < LINES; i++)
      v[i] = ptx::load_input16_if(first + 2 * i + lane / 16 < blocks, from + i * MOVER_LINE);
      // Lines side by side, since each step waits for the one before. Half a warp has a block.
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      uint32_t pair = amax_pair(v[i]);
      most[i] = max(pair & 0xFFFF, pair >> 16);
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < LINES; i++)
        most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], step));
#pragma unroll
    for (int i = 0; i < LINES; i++)
      finite &= is_finite(most[i]);
    if (!__all_sync(~0u, finite)) {
#pragma unroll
      for (int i = 0; i < LINES; i++)
        most[i] = finite_over_block(v[i]);
    }
    uint2 codes[LINES];
    float scale[LINES];
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      float inverse;
      scale[i] = block_scale(most[i], dtype != CUDA_FP8, &inverse);
      codes[i] = cast8(v[i], inverse);
    }
#pragma unroll 1
    for (uint32_t o = 0; o < outputs; o++) {
      char *to = job.output[o] + first * CUDA_BLOCK + lane * 8, *scales = (char *)job.scales_at[o];
#pragma unroll
      for (int i = 0; i < LINES; i++) {
        uint32_t block = first + 2 * i + lane / 16;
        if (block >= blocks)
          continue;
        *(uint2 *)(to + i * MOVER_LINE / 2) = codes[i];
        if (lane % 16 != 0)
          continue;
        if (dtype == CUDA_FP8_UE8M0)
          scales[(uint64_t)(block / 4) * scale_stride * 4 + block % 4] = (char)ue8m0_of(scale[i]);
        else
          ((float *)scales)[(uint64_t)block * scale_stride] = scale[i];
      }
      // Bytes without a block are 0.
      if (dtype == CUDA_FP8_UE8M0 && first + 2 * LINES >= blocks && lane < (4 - blocks % 4) % 4)
        scales[(uint64_t)(blocks / 4) * scale_stride * 4 + blocks % 4 + lane] = 0;
    }
  }
}

#endif
