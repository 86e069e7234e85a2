// The data of the operation that all warps of a throughput kernel share, and functions for sets of seats.
#ifndef CUDA_THROUGHPUT_KERNEL_CUH
#define CUDA_THROUGHPUT_KERNEL_CUH

#include "cuda/throughput/job.cuh"
#include "cuda/throughput/steps.cuh"

// The data that all warps of a kernel share. In shared memory.
struct flow_kernel {
  cuda_flow_op op;
  cuda_route route;
  uint64_t seats;                  // seats that take part and are not lost
  uint32_t row_base[DEVICE_SEATS]; // number of each seat's first row among all received rows
  uint32_t rows, tokens;           // rows: received, from all seats; tokens: of this rank
  bool names; // some links may be relayed: rows by a kept route name their token, so that relays can send it once
  // If a sender began before all headers had arrived: the struct that says later which seats take part; else NULL.
  const cuda_flow_op *rest;
  uint64_t zero_copy[DEVICE_SEATS]; // address at which each peer's zero-copy memory is mapped here; 0: not mapped
};

// Copies the route to shared memory. [block, barrier to follow]
__device__ __forceinline__ void begin_route(flow_kernel &kernel, const cuda_route *route) {
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_route) / 4; i += blockDim.x)
    ((uint32_t *)&kernel.route)[i] = ((const volatile uint32_t *)route)[i];
}

// Returns the sum of the values of the lower lanes and this lane. [warp]
__device__ __forceinline__ uint32_t sum_up_to(uint32_t value) {
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    uint32_t below = __shfl_up_sync(~0u, value, step);
    value += (int)(threadIdx.x % WARP) >= step ? below : 0;
  }
  return value;
}

// Lists where the part of each expert begins among packed rows. `counts`: rows of each expert; parts begin at multiples
// of `alignment`. Returns the end of the last part. [warp, some experts for each lane]
__device__ __forceinline__ uint32_t list_begins(const uint32_t *counts, uint32_t experts, uint32_t alignment,
                                                uint32_t *begins) {
  uint32_t each = (experts + WARP - 1) / WARP, first = threadIdx.x % WARP * each, end = min(first + each, experts);
  uint32_t sum = 0;
  for (uint32_t e = first; e < end; e++)
    sum += cuda_round_up(counts[e], alignment);
  uint32_t behind = sum_up_to(sum), begin = behind - sum;
  for (uint32_t e = first; e < end; e++) {
    begins[e] = begin;
    begin += cuda_round_up(counts[e], alignment);
  }
  return __shfl_sync(~0u, behind, WARP - 1);
}

// Copies the result of control and the number of tokens, too. All loads are issued together, since one takes as long as
// all of them. [block]
__device__ __forceinline__ void begin_op(flow_kernel &kernel, cuda_state *state, const cuda_flow_op *op,
                                         const cuda_route &route) {
  __shared__ uint64_t lost;
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_flow_op) / 4; i += blockDim.x)
    ((uint32_t *)&kernel.op)[i] = ((const volatile uint32_t *)op)[i];
  if (threadIdx.x == blockDim.x - 1)
    lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
  if (threadIdx.x == blockDim.x - WARP)
    kernel.tokens = *(const volatile uint32_t *)&route.sums[0];
  if (threadIdx.x == blockDim.x - 2 * WARP)
    kernel.names = ptx::load_volatile(&state->control.strict) != 0;
  __syncthreads();
  if (threadIdx.x / WARP == 0) {
    uint32_t all = 0;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < cuda_round_up(kernel.op.count, WARP); i += WARP) {
      bool counts = i < kernel.op.count;
      uint32_t seat = counts ? kernel.op.by_rank[i] : 0, rows = counts ? kernel.op.rows[seat] : 0;
      uint32_t end = all + sum_up_to(rows);
      if (counts)
        kernel.row_base[seat] = end - rows;
      all = __shfl_sync(~0u, end, WARP - 1);
    }
    kernel.rows = all;
    kernel.seats = kernel.op.seats & ~lost;
    kernel.rest = nullptr;
  }
  __syncthreads();
}
// Does both, if the route is complete. [block]
__device__ __forceinline__ void begin_flow(flow_kernel &kernel, cuda_state *state, const cuda_flow_op *op,
                                           const cuda_route &route) {
  if (threadIdx.x == 0)
    kernel.route = route;
  begin_op(kernel, state, op, route);
}

__device__ __forceinline__ bool has(uint64_t seats, uint32_t seat) {
  return seats >> seat & 1;
}
// The set of seats from the lanes' flags: `low` for seat `lane`, `high` for seat `lane` + 32.
__device__ __forceinline__ uint64_t seats_of(bool low, bool high) {
  return __ballot_sync(~0u, low) | (uint64_t)__ballot_sync(~0u, high) << 32;
}
// The next seat of `seats` after `last`, cyclically. `seats` must not be empty.
__device__ __forceinline__ uint32_t next_seat(uint64_t seats, uint32_t last) {
  uint64_t behind = last >= 63 ? 0 : seats & ~0ull << (last + 1);
  return (uint32_t)__ffsll((long long)(behind ? behind : seats)) - 1;
}

#endif
