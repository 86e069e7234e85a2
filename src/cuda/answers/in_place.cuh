// Answers that are read in place (flow.h): which memory is mapped, where the answers are, and until when they have to
// stay.
#ifndef CUDA_ANSWERS_IN_PLACE_CUH
#define CUDA_ANSWERS_IN_PLACE_CUH

#include "cuda/throughput/channel.cuh"

// The address at which the zero-copy memory of this thread's seat is mapped here; 0: not mapped.
__device__ __forceinline__ uint64_t mapped_zero_copy(const cuda_state *state, const cuda_zero_copy &own) {
  return own.bytes && threadIdx.x < DEVICE_SEATS ? ptx::load_volatile(&state->zero_copy[threadIdx.x]) : 0;
}
// Whether this rank's answers are read in place. This requires that all peers that take part can read them, since all
// answers use the same way. `mapped`: mapped_zero_copy(). [block, after begin_op()]
__device__ __forceinline__ bool begin_in_place(flow_kernel &kernel, const cuda_zero_copy &own, uint64_t mapped) {
  uint32_t seat = threadIdx.x;
  if (seat < DEVICE_SEATS)
    kernel.zero_copy[seat] = mapped;
  bool cannot = seat < DEVICE_SEATS && !mapped && seat != kernel.op.self && has(kernel.seats, seat);
  return !__syncthreads_or(cannot) && own.in_place;
}

__device__ __forceinline__ uint64_t *let_go_word(char *window) {
  return &((cuda_flow_head *)window)->let_go.answers;
}
__device__ __forceinline__ uint64_t number_of(const channel &channel) {
  return channel.base / channel.list + 1;
}

// Waits until `seats` have read what was sent to them in this channel. Announces to lost seats that the data may
// change. [warp]
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

// Returns those of `seats` that have given up the data that this warp has read from them. [warp]
__device__ __forceinline__ uint64_t let_go(const channel &channel, uint64_t seats) {
  bool gone[2];
  ptx::fence_system(); // after all reads
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    uint32_t seat = channel.lane + h * WARP;
    gone[h] = has(seats, seat) && channel.kernel.zero_copy[seat] &&
              ptx::load_volatile(let_go_word(channel.kernel.op.in[seat])) == number_of(channel);
  }
  return seats_of(gone[0], gone[1]);
}

// Publishes to the readers of a channel where all their answers lie. Earlier kernels have written the answers; the end
// of those kernels has ordered their writes in this GPU's memory. [warp]
__device__ __forceinline__ void show_places(const cuda_answers_args &args, const flow_kernel &kernel,
                                            channel_memory &memory, uint32_t index, uint64_t readers) {
  channel channel(kernel, args.flow, true, args.state, memory, index);
  uint32_t count[2];
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    uint32_t seat = channel.lane + h * WARP;
    count[h] = has(readers, seat) ? kernel.route.came[seat * CUDA_CHANNELS + index] : 0;
  }
  await_readers(channel, readers);
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    uint32_t seat = channel.lane + h * WARP;
    if (!has(readers & ~channel.dropped, seat))
      continue;
    uint64_t first = kernel.row_base[seat];
    const char *rows = (const char *)args.y + first * 2 * args.flow.hidden;
    const char *weights = (const char *)(args.row_weights + first * args.topk);
    uint32_t weights_at =
        args.row_weights ? (uint32_t)((weights - args.zero_copy.memory) / CUDA_PLACE_WORD) : CUDA_NOT_IN_PLACE;
    uint64_t number = number_of(channel) << CUDA_PLACE_COUNT | count[h];
    ptx::store_unit(&((cuda_flow_head *)kernel.op.out[seat])->places[index],
                    make_uint4((uint32_t)((rows - args.zero_copy.memory) / CUDA_PLACE_ROW), weights_at,
                               (uint32_t)number, (uint32_t)(number >> 32)));
  }
  __syncwarp();
}

// Waits until the readers have read the answers. [warp]
__device__ __forceinline__ void await_places_read(const cuda_answers_args &args, const flow_kernel &kernel,
                                                  channel_memory &memory, uint32_t index, uint64_t readers) {
  channel channel(kernel, args.flow, true, args.state, memory, index);
  for (uint32_t seat = channel.lane; seat < DEVICE_SEATS; seat += WARP)
    if (has(readers, seat))
      memory.sent[seat] = kernel.route.came[seat * CUDA_CHANNELS + index];
  __syncwarp();
  await_read(channel, readers);
}

// The places of a channel's answers that are read in place, and of their weights, for seats `lane` and `lane` + 32;
// NULL: the answers are in the ring, or the place is not known yet.
struct placed_answers {
  const char *rows[2], *weights[2];

  __device__ __forceinline__ placed_answers() : rows{}, weights{} {}

  // The address of `bytes` at an offset in a peer's zero-copy memory; NULL: out of range. The offset comes from the
  // peer.
  __device__ __forceinline__ static const char *at(const flow_kernel &kernel, uint64_t all, uint32_t seat,
                                                   uint64_t offset, uint64_t bytes) {
    return offset < all && all - offset >= bytes ? (const char *)kernel.zero_copy[seat] + offset : nullptr;
  }
  // Looks for the places of those of `seats` whose places are not known yet. Returns the seats that have no more
  // answers. [warp]
  __device__ __forceinline__ uint64_t look(const cuda_answers_args &args, const flow_kernel &kernel,
                                           const channel &channel, uint64_t seats) {
    bool over[2], found = false;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      over[h] = false;
      if (!has(seats, seat) || !kernel.zero_copy[seat])
        continue;
      if (rows[h])
        over[h] = channel.memory.sent[seat] >= channel.memory.room[seat];
      if (rows[h] || channel.memory.room[seat] > 0)
        continue;
      uint4 place = ptx::load_unit_acquire(&((const cuda_flow_head *)kernel.op.in[seat])->places[channel.index]);
      uint64_t number = (uint64_t)place.w << 32 | place.z;
      if (number >> CUDA_PLACE_COUNT != (number_of(channel) & CUDA_PLACE_NUMBER))
        continue;
      uint64_t count = *(const volatile uint32_t *)&kernel.route.tokens[seat], all = args.zero_copy.bytes;
      rows[h] = at(kernel, all, seat, (uint64_t)place.x * CUDA_PLACE_ROW, count * 2 * args.flow.hidden);
      if (rows[h] && place.y != CUDA_NOT_IN_PLACE)
        weights[h] = at(kernel, all, seat, (uint64_t)place.y * CUDA_PLACE_WORD, count * 4 * args.topk);
      channel.memory.room[seat] =
          rows[h] ? min((uint32_t)number & ((1u << CUDA_PLACE_COUNT) - 1), channel.list - 1) : 0;
      over[h] = channel.memory.room[seat] == 0;
      found |= !over[h];
    }
#if __CUDA_ARCH__ >= 900
    if (__any_sync(~0u, found))
      ptx::bulk_fence_global(); // bulk copies read the data that the places announce
#endif
    __syncwarp();
    return seats_of(over[0], over[1]);
  }
  __device__ __forceinline__ uint64_t seats() const {
    return seats_of(rows[0] != nullptr, rows[1] != nullptr);
  }
  __device__ __forceinline__ void forget() {
    rows[0] = rows[1] = weights[0] = weights[1] = nullptr;
  }

  // Gets a seat's value from the lane that has it. [warp]
  __device__ __forceinline__ static const char *of(const char *const at[2], uint32_t seat) {
    unsigned long long low = __shfl_sync(~0u, (unsigned long long)at[0], seat % WARP),
                       high = __shfl_sync(~0u, (unsigned long long)at[1], seat % WARP);
    return (const char *)(seat < WARP ? low : high);
  }
};

#endif
