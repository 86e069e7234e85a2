// dispatch: casts rows and writes them to the ranks of their experts; places received rows by expert or by rank.
#ifndef CUDA_DISPATCH_DISPATCH_CUH
#define CUDA_DISPATCH_DISPATCH_CUH

#include "cuda/dispatch/receive.cuh"
#include "cuda/dispatch/roles.cuh"
#include "cuda/dispatch/send.cuh"
#include "cuda/dispatch/send_metadata.cuh"

namespace {

template <int KIND, bool SENDS, bool RECEIVES>
__global__ void __launch_bounds__(BLOCK, 1) dispatch(const __grid_constant__ cuda_dispatch_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ snapshot snapshot;
  constexpr steps STEPS = {SENDS, RECEIVES, false, false, false, false, false, 0};
  const roles roles(SENDS, args.d.num_tokens * args.layout.row.packets);
  const role &sending = roles.sending, &sending_metadata = roles.sending_metadata, &receiving = roles.receiving;
  uint32_t *shared = (uint32_t *)(memory + (SENDS ? SENDERS : 0) * STAGE);
  touch(args);
  outgoing out;
  if (SENDS) {
    out = outgoing_begin(args, shared, blockIdx.x - sending_metadata.first_block < sending_metadata.blocks);
    shared += (args.members * out.parts + CUDA_UNIT_COUNTS) * out.words;
  }
  const warp_set metadata_warps(sending_metadata), placers = ::placers(receiving);
  ptx::kernel_wait();
  const snapshot_part<BLOCK> part(args.state);
  const uint32_t tokens = SENDS ? tokens_of(args) : 0;
  slice selected(args, tokens, SENDS && sending_metadata.includes_me() ? sending_metadata.thread() / WARP : NO_SLICE);
  sender<KIND> sender(args, tokens, warp_set(sending), SENDS && sending.includes_me());
  trace(args.trace, 0, threadIdx.x == 0);
  part.put(snapshot);
  __syncthreads();
  trace(args.trace, 1, threadIdx.x == 0);
  // The warp with the least other work does this, before any thread waits for credit.
  if (threadIdx.x / WARP == WARPS - 1) {
    if (blockIdx.x == max(gridDim.x, 2) - 2) // if there are many blocks, this one neither sends nor leads
      publish(snapshot, args.state, STEPS);
    if (SENDS && args.d.replays && blockIdx.x == 0 && threadIdx.x % WARP == 0)
      args.state->report->replayed = snapshot.counters.sent + 1;
    arrive(snapshot, args.state, STEPS);
  }
  if (SENDS && (sending.includes_me() || sending_metadata.includes_me())) {
    const cuda_view &view = view_of(snapshot, snapshot.counters.sent);
    uint64_t open = await_credit(args.state, snapshot, view, snapshot.counters.sent, snapshot.counters.taken_dispatch,
                                 &cuda_area_head::taken_dispatch);
    if (sending.includes_me()) {
      sender.send(snapshot, view, open, memory + threadIdx.x / WARP * STAGE);
      trace(args.trace, 2, threadIdx.x == 0);
      return;
    }
    selection_given given(args, tokens, metadata_warps.index);
    outgoing_mark(out, args, snapshot, view, tokens, selected, sending_metadata);
    sending_metadata.sync();
    send_metadata(args, snapshot, view, tokens, out, open, given, sending_metadata, metadata_warps);
    trace(args.trace, 6, sending_metadata.thread() == 0);
  }
  if (RECEIVES && receiving.includes_me())
    receive<row_form<KIND>::EACH>(args, snapshot, shared, receiving, placers);
}

template <int KIND> const void *half_of(uint32_t halves) {
  return halves == DEVICE_SEND   ? (const void *)dispatch<KIND, true, false>
         : halves == DEVICE_RECV ? (const void *)dispatch<KIND, false, true>
                                 : (const void *)dispatch<KIND, true, true>;
}

} // namespace

#endif
