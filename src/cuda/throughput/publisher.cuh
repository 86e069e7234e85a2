// The publisher: one warp of a block that publishes the progress of all writers of the block to their readers. A fence
// at system scope takes as long as a row, however much it covers. With a publisher the writers do not wait for fences,
// and a row is published about 4 us after it has arrived.
//
// Every writer of the block writes into its channel_memory how many rows have arrived at each seat, and when its
// channel ends. It begins another channel when the publisher has published that end. The publisher ends when all
// writers have.
#ifndef CUDA_THROUGHPUT_PUBLISHER_CUH
#define CUDA_THROUGHPUT_PUBLISHER_CUH

#include "cuda/throughput/channel.cuh"

__device__ __forceinline__ uint32_t look_at(const uint32_t &word) {
  return *(const volatile uint32_t *)&word;
}

// --- writers ---

// To be called before the other warps of the block begin. [warp]
__device__ __forceinline__ void begin_publishing(channel_memory &memory) {
  if (threadIdx.x % WARP == 0)
    memory.serial = memory.acked = memory.over = 0;
}
// Opens a channel, whose memory has been initialised. [warp]
__device__ __forceinline__ void open_channel(channel_memory &memory) {
  __syncwarp();
  __threadfence_block();
  if (threadIdx.x % WARP == 0)
    *(volatile uint32_t *)&memory.serial = memory.serial + 1;
  __syncwarp();
}
// Ends the channel: nothing more is written to these seats. [warp]
__device__ __forceinline__ void end_channel(channel_memory &memory, uint64_t seats) {
  if (threadIdx.x % WARP == 0)
    memory.closing = seats;
  open_channel(memory); // the next number
}
// Waits until the end has been published; then the memory can be used again. [warp]
__device__ __forceinline__ void await_published(const channel_memory &memory) {
  while (look_at(memory.acked) != look_at(memory.serial))
    ;
  __syncwarp();
  __threadfence_block();
}
// [warp]
__device__ __forceinline__ void end_writing(channel_memory &memory) {
  __syncwarp();
  __threadfence_block();
  if (threadIdx.x % WARP == 0)
    *(volatile uint32_t *)&memory.over = 1;
}

// --- the publisher ---

// Publishes the tails; lane w reads the memory of writer w. `answers`: of the ring for answers, else for rows. [warp]
static __device__ __noinline__ void publish_tails(const flow_kernel &kernel, const cuda_flow &flow, bool answers,
                                                  channel_memory *writers, uint32_t count) {
  uint32_t lane = threadIdx.x % WARP;
  channel_memory &memory = writers[lane < count ? lane : 0];
  uint64_t base = (answers ? kernel.op.answer : kernel.op.op) * flow.list;
  size_t words = answers ? offsetof(cuda_flow_head, answers) : 0;
#pragma unroll 1
  for (;;) {
    bool over = lane >= count || look_at(memory.over);
    __threadfence_block();
    uint32_t serial = lane < count ? look_at(memory.serial) : 0, acked = lane < count ? memory.acked : 0;
    __threadfence_block();
    bool closes = serial % 2 == 0 && serial != acked;
    uint64_t closing = closes ? memory.closing : 0, news = 0;
    if (closes || serial % 2) {
#pragma unroll 1
      for (uint64_t left = kernel.seats; left; left &= left - 1) {
        uint32_t seat = (uint32_t)__ffsll((long long)left) - 1, written = look_at(memory.written[seat]);
        if (written == memory.published[seat] && !has(closing, seat))
          continue;
        memory.published[seat] = written;
        news |= 1ull << seat;
      }
    }
    if (__any_sync(~0u, news || closes)) {
      ptx::fence_system();
#pragma unroll 1
      for (uint64_t left = news; left; left &= left - 1) {
        uint32_t seat = (uint32_t)__ffsll((long long)left) - 1;
        cuda_flow_word *word = (cuda_flow_word *)(kernel.op.out[seat] + words) + memory.index;
        ptx::store_relaxed(&word->tail, (base + memory.published[seat]) * 2 + has(closing, seat));
      }
      __syncwarp();
      if (closes)
        *(volatile uint32_t *)&memory.acked = serial;
    } else {
      __nanosleep(100);
    }
    if (__all_sync(~0u, over && !closes))
      break;
  }
}

#endif
