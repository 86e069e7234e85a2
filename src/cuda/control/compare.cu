// Checks whether the selections of a call are the selections of a route: CHECK_ROUTE of weft/ep.h.
#include "cuda/control/control.h"
#include "cuda/kernels/launch.h"
#include "cuda/kernels/ptx.cuh"
#include "cuda/throughput/launch.h"

namespace {

enum { COMPARE_THREADS = 512 };

__device__ __forceinline__ int64_t selection(const void *list, bool narrow, uint64_t at) {
  return narrow ? ((const int32_t *)list)[at] : ((const int64_t *)list)[at];
}

__global__ void __launch_bounds__(COMPARE_THREADS, 1) compare(const __grid_constant__ cuda_compare_args args) {
  ptx::kernel_wait();
  uint64_t all = (uint64_t)min(args.num_tokens, args.route->sums[0]) * args.topk;
  uint64_t threads = (uint64_t)gridDim.x * COMPARE_THREADS;
  for (uint64_t at = blockIdx.x * COMPARE_THREADS + threadIdx.x; at < all; at += threads)
    if (selection(args.given, args.narrow, at) != selection(args.kept, args.kept_narrow, at)) {
      atomicMin((unsigned long long *)args.first, (unsigned long long)at);
      break; // the other selections of this thread have larger indices
    }
}

} // namespace

int cuda_launch_compare(const struct cuda_compare_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)compare, params, blocks, COMPARE_THREADS, 0, early, stream);
}

int cuda_load_compare(bool *early) {
  return (int)load((const void *)compare, early);
}
