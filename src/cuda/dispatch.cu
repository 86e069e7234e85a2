// dispatch: cast and write rows to the ranks of their experts; place the rows that come by expert, or by rank.
#include "cuda/dispatch_receive.cuh"
#include "cuda/dispatch_send.cuh"
#include "cuda/launch.h"

namespace {

// Warps of a block: a team that sends, the couriers, three teams that receive.
template <int PARTS, bool FP8> __global__ void __launch_bounds__(BLOCK, 1) dispatch(const cuda_dispatch_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ scene scene;
  __shared__ ring<row_mail> ring;
  __shared__ uint32_t tokens[CUDA_MAX_MEMBERS];
  bool sends = args.halves & CUDA_SEND, receives = args.halves & CUDA_RECV;
  uint32_t tid = threadIdx.x, lane = tid % WARP;
  ptx::kernel_wait();
  row<PARTS> first; // asked for before all else: it takes longest to come
  int64_t expert = -1;
  team sender = {tid, lane, tid / WARP, blockIdx.x, gridDim.x};
  if (sends && tid < TEAM && sender.index < args.num_tokens) {
    load_row<PARTS, FP8>(first, args, sender.index, sender);
    expert = load_expert(args, sender.index, sender);
  }
  trace(args.trace, 0, tid == 0);
  scene_begin(scene, args.state, {sends, receives, false, false});
  trace(args.trace, 1, tid == 0);
  outbox<row_mail> outbox = {&ring, memory, stage_bytes(args.layout), TEAM, 0};
  if (tid < TEAM) {
    if (sends)
      send<PARTS, FP8>(args, scene, first, expert, outbox, sender);
  } else if (tid < FIRST_RECEIVER) {
    if (sends)
      run_courier(outbox, (tid - TEAM) / WARP,
                  [&](const row_mail &mail, const char *stage) { deliver(args, scene, mail, stage, lane); });
    trace(args.trace, 2, tid == TEAM);
  } else if (receives) {
    uint32_t thread = tid - FIRST_RECEIVER, local = thread / PLACERS;
    team receiver = {thread % PLACERS, lane, thread % PLACERS / WARP, local * gridDim.x + blockIdx.x,
                     RECEIVERS / PLACERS * gridDim.x};
    receive(args, scene, tokens, (uint32_t *)(memory + (sends ? COURIERS * stage_bytes(args.layout) : 0)), thread,
            receiver);
  }
}

template <bool FP8> const void *kernel_for(uint32_t hidden) {
  switch ((hidden + 16 * TEAM - 1) / (16 * TEAM)) {
  case 1:
    return (const void *)dispatch<1, FP8>;
  case 2:
    return (const void *)dispatch<2, FP8>;
  case 3:
    return (const void *)dispatch<3, FP8>;
  case 4:
    return (const void *)dispatch<4, FP8>;
  default:
    return (const void *)dispatch<5, FP8>;
  }
}

} // namespace

int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t members, uint32_t blocks, bool early,
                         cudaStream_t stream) {
  const void *kernel =
      args->dtype == CUDA_BF16 ? kernel_for<false>(args->layout.hidden) : kernel_for<true>(args->layout.hidden);
  size_t memory = (args->halves & CUDA_SEND ? COURIERS * (size_t)stage_bytes(args->layout) : 0) +
                  (args->halves & CUDA_RECV ? places_size(*args, members) : 0);
  cudaError_t rc = cudaSuccess;
  if (memory > 40 * 1024)
    rc = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)memory);
  void *params[] = {(void *)args};
  if (rc == cudaSuccess)
    rc = launch(kernel, params, blocks, BLOCK, memory, early, stream);
  return (int)rc;
}
