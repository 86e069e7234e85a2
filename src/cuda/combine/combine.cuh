// combine: the experts' rank reduces its rows for a token to one row and returns it; the source adds the rows of the
// ranks.
#ifndef CUDA_COMBINE_COMBINE_CUH
#define CUDA_COMBINE_COMBINE_CUH

#include "cuda/combine/kernels.cuh"

namespace {

template <bool ANSWERS, bool ADDS, bool CODED>
__global__ void __launch_bounds__(COMBINE_BLOCK, 1) combine(const __grid_constant__ cuda_combine_args args) {
  // the stages and prefetched rows of answering warps, and the coding room of all warps
  extern __shared__ __align__(128) char memory[];
  __shared__ snapshot snapshot;
  __shared__ scratch scratches[COMBINE_WARPS];
  __shared__ uint64_t lost[COMBINE_WARPS / TEAM];
#if __CUDA_ARCH__ >= 900
  constexpr combine_room ROOM(false, ADDS, CODED);
#else
  constexpr combine_room ROOM(true, ADDS, CODED);
#endif
  constexpr uint32_t answerers = answerers_of(ANSWERS, ADDS), ASIDE = ROOM.aside;
  constexpr uint32_t QUIET = ANSWERS ? answerers - 1 : COMBINE_WARPS - 1; // the warp with the least other work
  const steps STEPS = {
      false,       false,         ANSWERS, ADDS, ADDS && CUDA_OPTION(args.c.keeps), CODED && CUDA_OPTION(args.by_call),
      !CUDA_USUAL, ahead_of(args)};
  // If answers are bf16, warps mostly wait for the links, and the order makes no difference.
  constexpr bool BEGUN_FIRST = ANSWERS && ADDS && CODED;
  const role answering = {0, gridDim.x, 0, answerers, 0};
  const role adding = {0, gridDim.x, answerers, COMBINE_WARPS - answerers, 0};
  scratch &scratch = scratches[threadIdx.x / WARP];
  char *room = CODED ? memory + answerers * ROOM.answerer() + threadIdx.x / WARP * CODED_ROOM : nullptr;
  touch(args);
  ptx::kernel_wait();
  const snapshot_part<COMBINE_BLOCK> part(args.state);
  const role &sending = ADDS ? adding : answering; // sends late weights
  const bool sends = ANSWERS && CUDA_LATES(args.c.late_weights) && sending.includes_me();
  late_weights weights(args, warp_set(sending), sends);
  trace(args.trace, 0, threadIdx.x == 0);
  part.put(snapshot);
  __syncthreads();
  trace(args.trace, 1, threadIdx.x == 0);
  if (threadIdx.x / WARP == QUIET) {
    if (blockIdx.x == gridDim.x - 1)
      publish(snapshot, args.state, STEPS);
    arrive(snapshot, args.state, STEPS);
  }
  if (sends)
    weights.send(args, snapshot, view_of(snapshot, snapshot.counters.answered + ahead_of(args)),
                 snapshot.counters.answered + ahead_of(args), warp_set(sending));
  if (ANSWERS && answering.includes_me()) {
    answer<CODED, ASIDE>(args, snapshot, view_of(snapshot, snapshot.counters.answered + ahead_of(args)),
                         warp_set(answering), scratch, memory + threadIdx.x / WARP * ROOM.stage,
                         memory + answerers * ROOM.stage + threadIdx.x / WARP * ASIDE * ROW_ASIDE, room,
                         begun{COMBINE_BLOCK, !BEGUN_FIRST});
    trace(args.trace, 2, threadIdx.x == 0);
  } else if (ADDS && adding.includes_me()) {
    if (BEGUN_FIRST)
      ptx::barrier(BARRIER_BEGUN, COMBINE_BLOCK);
    add_up<CODED>(args, snapshot, view_of(snapshot, snapshot.counters.combined + ahead_of(args)), lost, adding,
                  warp_set(adding), scratch, room);
    trace(args.trace, 4, adding.thread() == 0);
  }
}

template <bool CODED> const void *half_of(uint32_t halves) {
  return halves == DEVICE_SEND   ? (const void *)combine<true, false, CODED>
         : halves == DEVICE_RECV ? (const void *)combine<false, true, CODED>
                                 : (const void *)combine<true, true, CODED>;
}

} // namespace

#endif
