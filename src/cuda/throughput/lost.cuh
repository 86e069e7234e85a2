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

#endif
