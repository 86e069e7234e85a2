// Packets: how a warp sends and receives a part of a row. layout.h defines them.
//
// Line i of a packet belongs to iteration i / 4 and group i % 4; lane l of the group (8 lanes) has the 16 bytes from 16
// l on.
#ifndef CUDA_KERNELS_PACKET_CUH
#define CUDA_KERNELS_PACKET_CUH

#include "cuda/kernels/wait.cuh"

enum { WARP = 32, GROUP = 8, GROUPS = WARP / GROUP };

// A warp's own shared memory: a list of rows.
struct alignas(16) scratch {
  struct listed {
    const char *row;
    float weight;
    uint32_t seat;
  } rows[16]; // top-k at most
};

// EACH: chunks of a packet. If there are scales, scale[i] is the scale of the chunk that the lane's group has in
// iteration i.
template <int EACH> struct packet {
  static constexpr int ITERATIONS = EACH / GROUPS;
  static constexpr bool SCALES = EACH == CUDA_FP8_CHUNKS;
  static_assert(EACH % GROUPS == 0, "every lane has a part of as many lines");
  uint4 v[ITERATIONS];
  uint32_t scale[SCALES ? ITERATIONS : 1];
};

// Which lines a lane works on.
struct seat_in_packet {
  uint32_t group, lane;

  __device__ __forceinline__ seat_in_packet() : group(threadIdx.x % WARP / GROUP), lane(threadIdx.x % GROUP) {}
  __device__ __forceinline__ uint32_t line(int iteration) const { return iteration * GROUPS + group; }
  __device__ __forceinline__ uint32_t offset(int iteration) const {
    return iteration * GROUPS * CUDA_LINE + threadIdx.x % WARP * 16;
  }
};

// --- words that have arrived, and empty words ---

// The word to send for a value word: never CUDA_EMPTY.
__device__ __forceinline__ uint32_t fill(uint32_t word) {
  return word == CUDA_EMPTY ? CUDA_NOT_EMPTY : word;
}
__device__ __forceinline__ uint4 fill(uint4 v) {
  return make_uint4(fill(v.x), fill(v.y), fill(v.z), fill(v.w));
}

// The maximum of several words is CUDA_EMPTY if one of them is.
static_assert(CUDA_EMPTY == UINT32_MAX, "no word is larger");
__device__ __forceinline__ uint32_t largest(uint4 v) {
  return max(max(v.x, v.y), max(v.z, v.w));
}

// --- sending ---

// The place of a packet in an area. `scales`: place of the scale of its first chunk, if there are scales.
struct spot {
  size_t values, scales;
};

enum { STAGE = CUDA_BF16_CHUNKS * CUDA_LINE, STAGE_SCALES = CUDA_FP8_CHUNKS * CUDA_LINE };
static_assert(STAGE_SCALES + CUDA_FP8_CHUNKS * 4 <= STAGE, "a stage has room for values and scales");

// A packet that is being sent to one or more peers, with bulk copies from the warp's stage in shared memory. Ordinary
// stores of a processor would queue for the links, and all its loads would queue behind them. Bulk copies are not used
// if the way is strict or the device has none.
template <int EACH> struct outbound_packet {
  static constexpr bool SCALES = packet<EACH>::SCALES;
  const packet<EACH> &p;
  char *stage; // [STAGE], 128-byte aligned
  uint32_t count;
  bool strict;

  // [warp]
  __device__ __forceinline__ outbound_packet(const packet<EACH> &p, char *stage, uint32_t count, bool strict)
      : p(p), stage(stage), count(count), strict(strict) {
#if __CUDA_ARCH__ >= 900
    if (strict)
      return;
    seat_in_packet at;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++) { // the stage may have room for more lines than the packet has
      *(uint4 *)(stage + at.offset(i)) = p.v[i];
      if constexpr (SCALES)
        if (at.lane == 0)
          ((uint32_t *)(stage + STAGE_SCALES))[at.line(i)] = p.scale[i];
    }
    ptx::bulk_fence();
    __syncwarp();
#endif
  }

  // Sends to the area that each lane passes; NULL: none for this lane. [warp]
  __device__ __forceinline__ void send(char *area, const spot &to) const {
#if __CUDA_ARCH__ >= 900
    if (!strict) {
      if (area)
        ptx::bulk_store(area + to.values, stage, count * CUDA_LINE);
      if (SCALES && area)
        ptx::bulk_store(area + to.scales, stage + STAGE_SCALES, cuda_round_up(count * 4, 16));
      return;
    }
#endif
#pragma unroll 1
    for (uint32_t left = __ballot_sync(~0u, area != nullptr); left; left &= left - 1)
      put((char *)__shfl_sync(~0u, (unsigned long long)area, __ffs((int)left) - 1), to);
  }

  // To be called after the last send. [warp]
  __device__ __forceinline__ void sent() const {
#if __CUDA_ARCH__ >= 900
    if (!strict)
      ptx::bulk_commit();
#endif
  }

  // Waits until the copies have read the stage; needed before the stage is used again, or the block ends. [warp]
  static __device__ __forceinline__ void wait_until_read() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_read();
    __syncwarp();
#endif
  }
  // Waits until the copies have arrived, too. [warp]
  static __device__ __forceinline__ void wait_until_arrived() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait();
    __syncwarp();
#endif
  }

private:
  __device__ __forceinline__ void put(char *area, const spot &to) const {
    seat_in_packet at;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++) {
      if (at.line(i) >= count)
        continue;
      ptx::store_line(area + to.values + at.offset(i), p.v[i]);
      if constexpr (SCALES)
        if (at.lane == 0)
          ptx::store_volatile((uint32_t *)(area + to.scales) + at.line(i), p.scale[i]);
    }
  }
};

// --- receiving ---

// A packet that may have arrived only in part. `scale`: lane l has the scale of chunk l. [warp]
template <int EACH> struct inbound_packet {
  packet<EACH> p;
  uint32_t scale;

  __device__ __forceinline__ void load(const char *area, const spot &from, uint32_t count) {
    seat_in_packet at;
    uint32_t lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
      p.v[i] = at.line(i) < count ? ptx::load_line(area + from.values + at.offset(i)) : make_uint4(0, 0, 0, 0);
    scale =
        packet<EACH>::SCALES && lane < count ? ptx::load_volatile((const uint32_t *)(area + from.scales) + lane) : 0;
  }
  // Whether the whole packet has arrived. [warp]
  __device__ __forceinline__ bool whole() const {
    uint32_t most = scale;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
      most = max(most, largest(p.v[i]));
    return __all_sync(~0u, most != CUDA_EMPTY);
  }

  // Waits for a packet that was not complete at the first look: one lane polls its last word, so that waiting threads
  // leave the cache to those that write. False: the member is lost. [warp]
  __device__ __forceinline__ bool await(cuda_state *state, uint32_t seat, const char *area, const spot &from,
                                        uint32_t count) {
    const uint32_t *last = (const uint32_t *)(area + from.values + count * CUDA_LINE) - 1;
    wait_limit wait_limit;
    bool there;
    do {
      bool over = false;
      if (threadIdx.x % WARP == 0)
        while (!over && ptx::load_volatile(last) == CUDA_EMPTY)
          over = wait_limit.over(state, seat);
      if (__shfl_sync(~0u, over, 0))
        return false;
      load(area, from, count);
      there = whole();
      over = !there && threadIdx.x % WARP == 0 && wait_limit.over(state, seat);
      if (__shfl_sync(~0u, over, 0))
        return false;
    } while (!there);
    return true;
  }
};

#endif
