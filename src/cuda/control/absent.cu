// By a kept route: all rows of sources that do not take part any more, or were lost in mid-flow, are 0 and nobody's,
// also those that had not come when the route was filled. Their places stay.
#include "cuda/kernels/launch.h"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/lost.cuh"

namespace {

enum { ABSENT_THREADS = 256 };

__global__ void __launch_bounds__(ABSENT_THREADS, 1) absent(const __grid_constant__ cuda_rows_args args) {
  __shared__ flow_kernel kernel;
  __shared__ places_table table;
  ptx::kernel_wait();
  uint64_t seats = args.op->absent | args.op->lost;
  if (!seats)
    return;
  begin_flow(kernel, args.state, args.op, *args.route);
  make_places(args, kernel, table, gridDim.x); // no block tells: the rows' kernel has
  uint32_t thread = blockIdx.x * ABSENT_THREADS + threadIdx.x, threads = gridDim.x * ABSENT_THREADS;
#pragma unroll 1
  for (; seats; seats &= seats - 1) {
    uint32_t seat = (uint32_t)__ffsll((long long)seats) - 1;
    clear_slots(args, kernel, seat, thread, threads);
    clear_rows(args, kernel, table, seat, NULL, thread / WARP, threads / WARP);
  }
}

} // namespace

int cuda_launch_absent(const struct cuda_rows_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  cuda_rows_args a = *args;
  a.out_scale_row_stride = a.out_scale_row_stride ? a.out_scale_row_stride : a.shape.scale_words;
  a.out_scale_block_stride = a.out_scale_block_stride ? a.out_scale_block_stride : 1;
  if (!a.out_scale_expert_stride)
    a.out_scale_expert_stride = (uint64_t)a.rows * a.out_scale_row_stride;
  a.alignment = a.alignment ? a.alignment : 1;
  void *params[] = {&a};
  return (int)launch((const void *)absent, params, blocks, ABSENT_THREADS, 0, early, stream);
}

int cuda_load_absent(bool *early) {
  return (int)load((const void *)absent, early);
}
