// Control of a throughput dispatch: sends and receives the headers of all ranks, and writes the data that the kernels
// for rows need (op.h). It uses one block.
#ifndef CUDA_CONTROL_CONTROL_CUH
#define CUDA_CONTROL_CONTROL_CUH

#include "cuda/control/received.cuh"
#include "cuda/control/sent.cuh"

namespace {

enum { BARRIER_SEND = 3 };
constexpr uint32_t SENDING_WARPS = 4;

// The warps that send headers if this kernel does both halves, and the warps that receive.
__device__ __forceinline__ role senders(bool receives) {
  return {0, 1, 0, receives ? SENDING_WARPS : (uint32_t)WARPS, BARRIER_SEND};
}
__device__ __forceinline__ role receivers(bool sends) {
  uint32_t first = sends ? SENDING_WARPS : 0;
  return {0, 1, first, WARPS - first, BARRIER_RECEIVE};
}

template <bool SENDS, bool RECEIVES>
__global__ void __launch_bounds__(BLOCK, 1) control(const __grid_constant__ cuda_control_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ snapshot snapshot;
  constexpr steps STEPS = {SENDS, RECEIVES, false, false, false, false, false, 0};
  const role sending = senders(RECEIVES), receiving = receivers(SENDS);
  touch(args);
  if (!args.overlaps)
    ptx::await_previous();
  if (threadIdx.x == 0)
    clear_step(&args.op->ready);
  __syncthreads();
  ptx::let_next();
  const snapshot_part<BLOCK> part(args.base.state);
  part.put(snapshot);
  __syncthreads();
  const planned route = {args.route->counts, args.route->tokens, args.route->sums, kept_route(args)};
  // the plan has already read the counters: it lets no kernel start before that
  if (threadIdx.x / WARP == WARPS - 1) {
    publish(snapshot, args.base.state, STEPS);
    if (SENDS && args.base.d.replays && threadIdx.x % WARP == 0)
      args.base.state->report->replayed = snapshot.counters.sent + 1;
    arrive(snapshot, args.base.state, STEPS);
  }
  if (SENDS && sending.includes_me())
    send_control(args, route, snapshot, sending);
  if (RECEIVES && receiving.includes_me())
    receive_control(args, snapshot, (uint32_t *)memory, receiving);
  if (args.overlaps)
    ptx::await_previous();
}

} // namespace

#endif
