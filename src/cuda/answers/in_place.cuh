// Answers that are read where they lie (flow.h): who maps whose memory, where they are, and until when they have to
// stay.
#ifndef CUDA_ANSWERS_IN_PLACE_CUH
#define CUDA_ANSWERS_IN_PLACE_CUH

#include "cuda/throughput/channel.cuh"

// Whose zero-copy memory is mapped here, and whether this rank's answers are read where they lie: if all peers that
// take part can, for all of them go one way. [block, behind begin_op(), with a barrier to follow]
__device__ __forceinline__ void begin_in_place(flow_kernel &kernel, const cuda_state *state,
                                               const cuda_zero_copy &own) {
  uint32_t seat = threadIdx.x;
  uint64_t mapped = 0;
  if (seat < DEVICE_SEATS) {
    mapped = own.bytes ? ptx::load_volatile(&state->zero_copy[seat]) : 0;
    kernel.zero_copy[seat] = mapped;
  }
  bool cannot = seat < DEVICE_SEATS && !mapped && seat != kernel.op.self && has(kernel.seats, seat);
  cannot = __syncthreads_or(cannot);
  if (threadIdx.x == 0) {
    kernel.zero_copy_bytes = own.bytes;
    kernel.in_place = own.in_place && !cannot;
  }
}

// Where `bytes` at an offset in a peer's zero-copy memory are; NULL: not there. The peer says the offset.
__device__ __forceinline__ const char *in_zero_copy(const flow_kernel &kernel, uint32_t seat, uint64_t offset,
                                                    uint64_t bytes, uint32_t align) {
  bool inside = kernel.zero_copy[seat] && offset % align == 0 && offset < kernel.zero_copy_bytes &&
                kernel.zero_copy_bytes - offset >= bytes;
  return inside ? (const char *)kernel.zero_copy[seat] + offset : nullptr;
}

__device__ __forceinline__ uint64_t *let_go_word(char *window) {
  return &((cuda_flow_head *)window)->let_go.answers;
}
__device__ __forceinline__ uint64_t number_of(const channel &channel) {
  return channel.base / channel.list + 1;
}

// Waits until those of `seats` have read what they were sent in this channel. Those that do not come are told that it
// may change. [warp]
__device__ __forceinline__ void await_read(channel &channel, uint64_t seats) {
  channel_wait wait;
#pragma unroll 1
  for (;;) {
    bool late[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP, sent = channel.memory.sent[seat];
      late[h] = has(seats, seat) && sent > 0 &&
                ptx::load_volatile(&channel.word(channel.kernel.op.in[seat])->credit) < channel.base + sent;
    }
    uint64_t all = seats_of(late[0], late[1]);
    channel.awaited = all & ~channel.dropped;
    if (!channel.awaited) {
#pragma unroll
      for (uint32_t h = 0; h < 2; h++)
        if (has(all, channel.lane + h * WARP))
          ptx::store_relaxed(let_go_word(channel.kernel.op.out[channel.lane + h * WARP]), number_of(channel));
      if (all)
        ptx::fence_system(); // before anything that the caller does with the memory
      return;
    }
    wait.step(channel);
  }
}

// Those of `seats` that do not keep any more what this warp has read of them. [warp]
__device__ __forceinline__ uint64_t let_go(const channel &channel, uint64_t seats) {
  bool gone[2];
  ptx::fence_system(); // behind all that was read
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    uint32_t seat = channel.lane + h * WARP;
    gone[h] = has(seats, seat) && channel.kernel.zero_copy[seat] &&
              ptx::load_volatile(let_go_word(channel.kernel.op.in[seat])) == number_of(channel);
  }
  return seats_of(gone[0], gone[1]);
}

// Tells the readers of a channel where their answers lie: all of them, at once. [warp]
__device__ __forceinline__ void show_places(const cuda_answers_args &args, const flow_kernel &kernel,
                                            channel_memory &memory, uint32_t index, uint64_t readers) {
  channel channel(kernel, args.flow, true, args.state, memory, index);
  await_readers(channel, readers);
  for (uint32_t seat = channel.lane; seat < DEVICE_SEATS; seat += WARP) {
    if (!has(readers & ~channel.dropped, seat))
      continue;
    uint64_t first = kernel.row_base[seat];
    const char *rows = (const char *)args.y + first * 2 * args.flow.hidden;
    const char *weights = (const char *)(args.row_weights + first * args.topk);
    cuda_flow_place &place = ((cuda_flow_head *)kernel.op.out[seat])->places[index];
    ptx::store_relaxed(&place.rows, (uint64_t)(rows - args.zero_copy.memory));
    ptx::store_relaxed(&place.weights,
                       args.row_weights ? (uint64_t)(weights - args.zero_copy.memory) : CUDA_NOT_IN_PLACE);
    ptx::store_relaxed(&place.number, number_of(channel));
    memory.written[seat] = kernel.route.came[seat * CUDA_CHANNELS + index];
  }
  channel.close(readers & ~channel.dropped);
  __syncwarp();
}

// Until they have read them. [warp]
__device__ __forceinline__ void await_places_read(const cuda_answers_args &args, const flow_kernel &kernel,
                                                  channel_memory &memory, uint32_t index, uint64_t readers) {
  channel channel(kernel, args.flow, true, args.state, memory, index);
  for (uint32_t seat = channel.lane; seat < DEVICE_SEATS; seat += WARP)
    if (has(readers, seat))
      memory.sent[seat] = kernel.route.came[seat * CUDA_CHANNELS + index];
  __syncwarp();
  await_read(channel, readers);
}

#endif
