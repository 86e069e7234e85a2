// By a kept route: the rows of sources that do not take part any more, or were lost in mid-flow, are 0 and nobody's.
// Their places stay.
#include "cuda/kernels/launch.h"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/places.cuh"

namespace {

enum { ABSENT_THREADS = 256 };

// One pair's rows, and what is told of them. [warp]
__device__ __forceinline__ void clear_pair(const cuda_rows_args &args, const cuda_route &route, uint32_t pair,
                                           int32_t rank, uint32_t lane) {
  uint32_t K = args.topk;
  bool by_rank = args.layout == WEFT_EP_RANK_MAJOR;
#pragma unroll 1
  for (uint32_t k = 0; k < (by_rank ? 1 : K); k++) {
    int32_t place = by_rank ? (int32_t)pair : route.place[(size_t)pair * K + k];
    if (place >= 0 && (!by_rank || pair < args.rows))
      zero_row(args, (uint32_t)place, rank, lane);
  }
  if (lane >= K || pair >= args.rows)
    return;
  size_t at = (size_t)pair * K + lane;
  if (args.slot)
    args.slot[at] = -1;
  if (by_rank && args.local_expert)
    args.local_expert[at] = -1;
  if (by_rank && args.weights)
    args.weights[at] = 0.0f;
}

__global__ void __launch_bounds__(ABSENT_THREADS, 1) absent(const __grid_constant__ cuda_rows_args args) {
  ptx::kernel_wait();
  const cuda_flow_op &op = *args.op;
  const cuda_route &route = *args.route;
  uint64_t seats = op.absent | op.lost;
  uint32_t warp = (blockIdx.x * ABSENT_THREADS + threadIdx.x) / WARP, warps = gridDim.x * ABSENT_THREADS / WARP;
#pragma unroll 1
  for (; seats; seats &= seats - 1) {
    uint32_t seat = (uint32_t)__ffsll((long long)seats) - 1;
#pragma unroll 1
    for (uint32_t c = warp; c < CUDA_CHANNELS; c += warps) {
      const int32_t *order = route.order + ((size_t)seat * CUDA_CHANNELS + c) * args.flow.list;
      uint32_t came = min(route.came[seat * CUDA_CHANNELS + c], args.flow.list);
#pragma unroll 1
      for (uint32_t i = 0; i < came; i++)
        if ((uint32_t)order[i] < route.max_rows)
          clear_pair(args, route, (uint32_t)order[i], op.rank[seat], threadIdx.x % WARP);
    }
  }
}

} // namespace

int cuda_launch_absent(const struct cuda_rows_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  cuda_rows_args a = *args;
  a.out_scale_row_stride = a.out_scale_row_stride ? a.out_scale_row_stride : a.shape.scale_words;
  a.out_scale_block_stride = a.out_scale_block_stride ? a.out_scale_block_stride : 1;
  if (!a.out_scale_expert_stride)
    a.out_scale_expert_stride = (uint64_t)a.rows * a.out_scale_row_stride;
  void *params[] = {&a};
  return (int)launch((const void *)absent, params, blocks, ABSENT_THREADS, 0, early, stream);
}

int cuda_load_absent(bool *early) {
  return (int)load((const void *)absent, early);
}
