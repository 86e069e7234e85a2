// dispatch: cast and write rows to the ranks of their experts; place the rows that come by expert, or by rank.
#include "cuda/dispatch/receive.cuh"
#include "cuda/dispatch/send.cuh"
#include "cuda/dispatch/send_metadata.cuh"
#include "cuda/kernels/launch.h"

namespace {

// A part of the blocks sends rows, a few send metadata, and the others only receive: what a processor loads queues
// behind what it stores to other GPUs (0.9 us, for routing of a hundred rows), and a thread that waits for values waits
// for all loads of its warp. Where there are few blocks, each has warps for all of it.
//
// A sender has one packet under way, so it takes many to fill the links. But headers travel on the same links and wait
// behind all that was sent before them: so no more warps send than are needed, three packets each where there are few.
// One packet more for some would be a round more for all.
enum {
  SENDING_PART = 3,
  METADATA_PART = 20,
  SENDERS = 12, // warps of a block that sends, at most
  LEAST_SENDERS = 4,
  PACKETS_OF_SENDER = 3, // where that takes no more than SENDERS
  SENDERS_AMONG_FEW = 2,
};
enum { BARRIER_RECEIVE = 1, BARRIER_METADATA };

struct roles {
  role sending, sending_metadata, receiving;

  // `packets`: of this rank's tokens.
  __device__ __forceinline__ explicit roles(bool sends, uint32_t packets)
      : sending{0, 0, 0, 0, 0}, sending_metadata{0, 0, 0, 0, 0}, receiving{0, gridDim.x, 0, WARPS, BARRIER_RECEIVE} {
    if (!sends)
      return;
    if (gridDim.x < FEW_BLOCKS) {
      sending = {0, gridDim.x, 0, SENDERS_AMONG_FEW, 0};
      sending_metadata = receiving = {0, gridDim.x, SENDERS_AMONG_FEW, WARPS - SENDERS_AMONG_FEW, BARRIER_RECEIVE};
      return;
    }
    uint32_t part = gridDim.x / SENDING_PART, apart = max(gridDim.x / METADATA_PART, 1);
    uint32_t senders = (packets + part * PACKETS_OF_SENDER - 1) / (part * PACKETS_OF_SENDER);
    sending = {0, part, 0, min(max(senders, (uint32_t)LEAST_SENDERS), (uint32_t)SENDERS), 0};
    sending_metadata = {part, apart, 0, WARPS, BARRIER_METADATA};
    receiving.first_block = part + apart;
    receiving.blocks = gridDim.x - part - apart;
  }
};

template <int KIND, bool SENDS, bool RECEIVES>
__global__ void __launch_bounds__(BLOCK, 1) dispatch(const __grid_constant__ cuda_dispatch_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ snapshot snapshot;
  constexpr steps STEPS = {SENDS, RECEIVES, false, false};
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
  slice selected(args, SENDS && sending_metadata.includes_me() ? sending_metadata.thread() / WARP : NO_SLICE);
  sender<KIND> sender(args, warp_set(sending), SENDS && sending.includes_me());
  trace(args.trace, 0, threadIdx.x == 0);
  part.put(snapshot);
  __syncthreads();
  trace(args.trace, 1, threadIdx.x == 0);
  // By the warp that has least else to do, before any thread waits for credit.
  if (threadIdx.x / WARP == WARPS - 1) {
    if (blockIdx.x == max(gridDim.x, 2) - 2) // where there are many blocks, this one neither sends nor leads
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
    selection_given given(args, metadata_warps.index);
    outgoing_mark(out, args, snapshot, view, selected, sending_metadata);
    sending_metadata.sync();
    send_metadata(args, snapshot, view, out, open, given, metadata_warps);
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

const void *kernel_for(const cuda_dispatch_args &args) {
  return args.dtype == CUDA_BF16 ? half_of<ROW_BF16>(args.d.halves)
         : args.d.scales         ? half_of<ROW_GIVEN>(args.d.halves)
                                 : half_of<ROW_CAST>(args.d.halves);
}

} // namespace

size_t cuda_dispatch_memory(const struct cuda_dispatch_args *args) {
  size_t senders = args->d.halves & DEVICE_SEND ? SENDERS : 0;
  return senders * STAGE + (args->d.halves & DEVICE_SEND ? outgoing_size(*args) : 0) +
         (args->d.halves & DEVICE_RECV ? places_size(*args) : 0);
}

int cuda_load_dispatch(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++) {
    const void *const kernels[] = {half_of<ROW_BF16>(halves), half_of<ROW_GIVEN>(halves), half_of<ROW_CAST>(halves)};
    for (const void *kernel : kernels)
      if (rc == cudaSuccess)
        rc = load(kernel, early);
  }
  return (int)rc;
}

int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  const void *kernel = kernel_for(*args);
  size_t memory = cuda_dispatch_memory(args);
  void *params[] = {(void *)args};
  return (int)launch(kernel, params, blocks, BLOCK, memory, early, stream);
}
