// The answers of a combine: half of each block's warps answer, the others add up what this rank's tokens get.
#include "cuda/throughput/add.cuh"
#include "cuda/throughput/answer.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"

namespace {

struct answers_launch {
  cuda_answers_args args;
  pump_shape answers, adds;
  uint32_t warps, each; // of a kind, of a block; bytes of shared memory of one
};

template <bool SUMS> __global__ __launch_bounds__(2 * PUMP_MOST_WARPS *WARP, 1) void answers_kernel(
    const __grid_constant__ answers_launch launch) {
  extern __shared__ __align__(128) char room[];
  __shared__ flow_kernel kernel;
  const cuda_answers_args &args = launch.args;
  ptx::kernel_wait();
  begin_flow(kernel, args.state, args.op, args.route);
  uint64_t mine = 1ull << kernel.op.self, others = args.rank_major ? kernel.seats & ~mine : kernel.seats;
  agents agents(launch.warps);
  if (!agents.writes)
    for (uint32_t c = agents.index; c < CUDA_CHANNELS; c += agents.count)
      for (uint32_t seat = threadIdx.x % WARP; seat < DEVICE_SEATS; seat += WARP)
        if (has(others, seat))
          ptx::store_relaxed(&((cuda_flow_head *)kernel.op.out[seat])->answers[c].credit,
                             kernel.op.op * args.flow.list);
  char *memory = room + (size_t)(threadIdx.x / WARP) * launch.each;
  if (agents.writes) {
    pump pump(launch.answers, memory);
    for (uint32_t c = agents.index; c < CUDA_CHANNELS; c += agents.count) {
      answerer<SUMS> answerer(args, kernel, pump, c, others);
      run_role(pump, answerer);
      answerer.end(pump, others);
    }
#ifdef FLOW_TRACE
    flow_trace_put(pump, 2);
#endif
  } else {
    pump pump(launch.adds, memory);
    for (uint32_t c = agents.index; c < CUDA_CHANNELS; c += agents.count) {
      adder adder(args, kernel, pump, c);
      run_role(pump, adder);
      adder.end();
    }
#ifdef FLOW_TRACE
    flow_trace_put(pump, 3);
#endif
  }
}

} // namespace

int cuda_launch_answers(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  answers_launch launch_args;
  launch_args.args = *args;
  pump_shape_init(&launch_args.answers, 2 * args->flow.hidden, 2 * args->flow.hidden);
  launch_args.adds = launch_args.answers;
  launch_args.answers.foot = args->row_weights ? cuda_round_up(4 * args->topk, 16) : 0;
  launch_args.warps = pump_warps(blocks);
  size_t memory = pump_share(&launch_args.answers, &launch_args.adds, launch_args.warps, &launch_args.each);
  void *params[] = {&launch_args};
  const void *kernel = args->rank_major ? (const void *)answers_kernel<false> : (const void *)answers_kernel<true>;
  return launch(kernel, params, blocks, 2 * launch_args.warps * WARP, memory, early, stream);
}

int cuda_load_answers(bool *early) {
  cudaError_t rc = load((const void *)answers_kernel<false>, early);
  return rc == cudaSuccess ? load((const void *)answers_kernel<true>, early) : rc;
}

#ifdef FLOW_TRACE
extern "C" void flow_trace_answers(unsigned long long *to) {
  cudaMemcpyFromSymbol(to, flow_traced, sizeof flow_traced);
  unsigned long long zero[4][8] = {};
  cudaMemcpyToSymbol(flow_traced, zero, sizeof zero);
}
#endif
