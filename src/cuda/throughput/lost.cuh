// Handles data of a source that does not arrive: its rows become 0 and get no owner, and its selections get no row.
#ifndef CUDA_THROUGHPUT_LOST_CUH
#define CUDA_THROUGHPUT_LOST_CUH

#include "cuda/throughput/places.cuh"

// Clears the selections of the pairs of one source. `thread` of `threads` does its share.
static __device__ __noinline__ void clear_slots(const cuda_rows_args &args, const flow_kernel &kernel, uint32_t seat,
                                                uint32_t thread, uint32_t threads) {
  uint32_t first = kernel.row_base[seat], K = args.topk;
  if (!args.slot || first >= args.rows)
    return;
  uint64_t count = (uint64_t)min(kernel.op.rows[seat], args.rows - first) * K;
#pragma unroll 1
  for (uint64_t i = thread; i < count; i += threads)
    args.slot[(uint64_t)first * K + i] = -1;
}

// Clears rows of one source, among the rows that its header counted. `warp` of `warps` does its share. `came`: one bit
// for each row, ordered by expert, set for the rows to keep; NULL: keep none. [warp]
static __device__ __noinline__ void clear_rows(const cuda_rows_args &args, const flow_kernel &kernel,
                                               const places_table &table, uint32_t seat, const uint32_t *came,
                                               uint32_t warp, uint32_t warps) {
  uint32_t lane = threadIdx.x % WARP;
  bool by_rank = args.layout == WEFT_EP_RANK_MAJOR;
  uint32_t parts = by_rank ? 1 : args.flow.experts;
#pragma unroll 1
  for (uint32_t e = 0; e < parts; e++) {
    uint32_t begin = by_rank ? kernel.row_base[seat] : table.first[table.at(seat, e)];
    uint32_t count = by_rank ? kernel.op.rows[seat] : table.count(seat, e);
    uint32_t part = args.layout == WEFT_EP_PER_EXPERT ? e * args.rows : 0;
#pragma unroll 1
    for (uint32_t i = warp; i < count && begin + i < args.rows; i += warps) {
      uint32_t row = part + begin + i, number = (came && !by_rank ? table.ends[e] : 0) + i;
      if (came && came[number / 32] >> number % 32 & 1)
        continue;
      zero_row(args, row, kernel.op.rank[seat], lane);
      if (!by_rank || lane >= args.topk)
        continue;
      if (args.local_expert)
        args.local_expert[(size_t)row * args.topk + lane] = -1;
      if (args.weights)
        args.weights[(size_t)row * args.topk + lane] = 0.0f;
    }
  }
}

// With a kept route: clears all rows of these sources, and keeps their places. `thread` of `threads` does its share.
static __device__ __noinline__ void clear_sources(const cuda_rows_args &args, const flow_kernel &kernel,
                                                  const places_table &table, uint64_t seats, uint32_t thread,
                                                  uint32_t threads) {
#pragma unroll 1
  for (; seats; seats &= seats - 1) {
    uint32_t seat = (uint32_t)__ffsll((long long)seats) - 1;
    clear_slots(args, kernel, seat, thread, threads);
    clear_rows(args, kernel, table, seat, NULL, thread / WARP, threads / WARP);
  }
}

// Clears the rows of sources that do not take part any more: the share of this block, among the blocks from `first` on.
// [block]
static __device__ __noinline__ void clear_absent(const cuda_rows_args &args, const flow_kernel &kernel,
                                                 const places_table &table, uint32_t first) {
  clear_sources(args, kernel, table, kernel.op.absent, (blockIdx.x - first) * blockDim.x + threadIdx.x,
                (gridDim.x - first) * blockDim.x);
}

// Notes a pair that arrived: its rows and its selections are kept. `bits`: as in clear_rows(); `all`: number of bits.
// [one thread]
static __device__ __forceinline__ void note_pair(const cuda_rows_args &args, const flow_kernel &kernel,
                                                 const places_table &table, uint32_t seat, uint32_t pair,
                                                 uint32_t *bits, uint32_t all) {
  bool by_rank = args.layout == WEFT_EP_RANK_MAJOR;
  for (uint32_t k = 0; k < args.topk; k++) {
    size_t at = (size_t)pair * args.topk + k;
    int32_t expert = *(const volatile int32_t *)&kernel.route.expert[at];
    int32_t place = !by_rank ? *(const volatile int32_t *)&kernel.route.place[at] : expert < 0 ? -1 : (int32_t)pair;
    if (place >= 0) {
      uint32_t part = args.layout == WEFT_EP_PER_EXPERT ? (uint32_t)expert * args.rows : 0;
      uint32_t number = by_rank ? pair - kernel.row_base[seat]
                                : table.ends[expert] + (uint32_t)place - part - table.first[table.at(seat, expert)];
      if (number < all)
        atomicOr(&bits[number / 32], 1u << number % 32);
    }
    if (args.slot && pair < args.rows)
      args.slot[at] = place;
  }
}

// Numbers the rows that the header of a source counted, ordered by expert: table.ends says where the rows of each
// expert begin. Returns the number of rows. [block]
static __device__ __noinline__ uint32_t number_rows(const cuda_rows_args &args, const flow_kernel &kernel,
                                                    const places_table &table, uint32_t seat) {
  __shared__ uint32_t all;
  if (threadIdx.x < WARP) {
    uint32_t sum = args.layout == WEFT_EP_RANK_MAJOR
                       ? kernel.op.rows[seat]
                       : list_begins(table.counts + table.at(seat, 0), args.flow.experts, 1, table.ends);
    if (threadIdx.x == 0)
      all = sum;
  }
  __syncthreads();
  return all;
}

// Clears the data that did not arrive from sources that were lost during the operation. With a kept route it clears all
// data of such a source, so that the result does not depend on the time of the loss. [block]
static __device__ __noinline__ void fill_lost(const cuda_rows_args &args, const flow_kernel &kernel,
                                              const places_table &table) {
  uint64_t lost = ptx::load_volatile(&args.op->lost);
  if (args.kept) {
    clear_sources(args, kernel, table, lost, threadIdx.x, blockDim.x);
    return;
  }
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  uint32_t *bits = args.workspace + ROWS_PLACES + (size_t)gridDim.x * places_words(args.flow.experts);
  for (uint32_t seat = 0; seat < DEVICE_SEATS; seat++) {
    if (!has(lost, seat))
      continue;
    uint32_t all = number_rows(args, kernel, table, seat);
    // the workspace has fewer bits: treated as if no row had arrived
    if (all > (uint64_t)args.max_rows * args.flow.topk) {
      clear_sources(args, kernel, table, 1ull << seat, threadIdx.x, blockDim.x);
      __syncthreads();
      continue;
    }
    for (uint32_t i = threadIdx.x; i < (all + 31) / 32; i += blockDim.x)
      bits[i] = 0;
    clear_slots(args, kernel, seat, threadIdx.x, blockDim.x);
    __syncthreads();
    for (uint32_t c = warp; c < CUDA_CHANNELS; c += warps) {
      uint32_t came = *(const volatile uint32_t *)&kernel.route.came[seat * CUDA_CHANNELS + c];
      const int32_t *order = kernel.route.order + ((size_t)seat * CUDA_CHANNELS + c) * args.flow.list;
      for (uint32_t i = lane; i < came; i += WARP) {
        uint32_t pair = (uint32_t)((const volatile int32_t *)order)[i];
        if (pair < kernel.route.max_rows)
          note_pair(args, kernel, table, seat, pair, bits, all);
      }
    }
    __syncthreads();
    clear_rows(args, kernel, table, seat, bits, warp, warps);
    __syncthreads();
  }
}

#endif
