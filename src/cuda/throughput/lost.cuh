// What does not come of a source: its rows become 0 and nobody's, and its selections are in no row.
#ifndef CUDA_THROUGHPUT_LOST_CUH
#define CUDA_THROUGHPUT_LOST_CUH

#include "cuda/throughput/places.cuh"

// `thread` of `threads` does its share of the selections of the pairs of one source.
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

// `warp` of `warps` does its share of the rows of one source, which are those that its header counted. `came`: a bit
// for each row of the caller's buffer, set for those that stay; NULL: none of them. [warp]
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
      uint32_t row = part + begin + i;
      if (came && came[row / 32] >> row % 32 & 1)
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

// By a kept route: all of these sources, whose places stay. `thread` of `threads` does its share.
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

// Of sources that do not take part any more, this block's share, of those from block `first` on. [block]
static __device__ __noinline__ void clear_absent(const cuda_rows_args &args, const flow_kernel &kernel,
                                                 const places_table &table, uint32_t first) {
  clear_sources(args, kernel, table, kernel.op.absent, (blockIdx.x - first) * blockDim.x + threadIdx.x,
                (gridDim.x - first) * blockDim.x);
}

// A pair that came: its rows stay, and its selections are in them. [a thread]
static __device__ __forceinline__ void note_pair(const cuda_rows_args &args, const flow_kernel &kernel, uint32_t pair,
                                                 uint32_t rows, uint32_t *bits) {
  for (uint32_t k = 0; k < args.topk; k++) {
    size_t at = (size_t)pair * args.topk + k;
    const volatile int32_t *places = kernel.route.place, *experts = kernel.route.expert;
    int32_t place = args.layout != WEFT_EP_RANK_MAJOR ? places[at] : experts[at] < 0 ? -1 : (int32_t)pair;
    if (place >= 0 && (uint32_t)place < rows)
      atomicOr(&bits[place / 32], 1u << place % 32);
    if (args.slot && pair < args.rows)
      args.slot[at] = place;
  }
}

// What did not come of sources that were lost in mid-flow; by a kept route all of it, so that what it has of a source
// is the same whenever that was lost. [block]
static __device__ __noinline__ void fill_lost(const cuda_rows_args &args, const flow_kernel &kernel,
                                              const places_table &table) {
  uint64_t lost = ptx::load_volatile(&args.op->lost);
  if (args.kept) {
    clear_sources(args, kernel, table, lost, threadIdx.x, blockDim.x);
    return;
  }
  uint32_t E = args.flow.experts, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  // A bit for each pair, or row of the caller's buffer, that has come.
  uint32_t *bits = args.workspace + ROWS_PLACES + (size_t)gridDim.x * places_words(E);
  uint32_t rows = args.layout == WEFT_EP_PER_EXPERT ? E * args.rows : args.rows;
  // The workspace has no bits for more: then it is known that the source is lost, and its rows are as they were.
  if ((uint64_t)rows > (uint64_t)args.max_rows * args.flow.topk)
    return;
  for (uint32_t i = threadIdx.x; i < (rows + 31) / 32; i += blockDim.x)
    bits[i] = 0;
  for (uint32_t seat = 0; seat < DEVICE_SEATS; seat++) {
    if (!has(lost, seat))
      continue;
    clear_slots(args, kernel, seat, threadIdx.x, blockDim.x);
    __syncthreads();
    for (uint32_t c = warp; c < CUDA_CHANNELS; c += warps) {
      uint32_t came = *(const volatile uint32_t *)&kernel.route.came[seat * CUDA_CHANNELS + c];
      const int32_t *order = kernel.route.order + ((size_t)seat * CUDA_CHANNELS + c) * args.flow.list;
      for (uint32_t i = lane; i < came; i += WARP) {
        uint32_t pair = (uint32_t)((const volatile int32_t *)order)[i];
        if (pair < kernel.route.max_rows)
          note_pair(args, kernel, pair, rows, bits);
      }
    }
    __syncthreads();
    clear_rows(args, kernel, table, seat, bits, warp, warps);
    __syncthreads();
  }
}

#endif
