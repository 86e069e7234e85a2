// Packets: how a warp cuts a part of a row into lines, and takes it from lines (layout.h says what they are).
//
// Line i of a packet belongs to iteration i / 4 and group i % 4; lane l of the group (8 lanes) has its bytes from 16 l.
// Behind its chunks, `count` of them, a packet has one more line, of *granules* of 8 bytes: granule j is what the flag
// pushed out of chunk j, and from granule EACH on stand the chunks' scales, two to a granule. Granule 15 is the flag.
// The last line is put together, and taken apart, in shared memory: few instructions, for what a warp does here is on
// the way of every row.
#ifndef CUDA_PACKET_CUH
#define CUDA_PACKET_CUH

#include "cuda/wait.cuh"

enum { WARP = 32, GROUP = 8, GROUPS = WARP / GROUP };

// A warp's own shared memory: a last line, or a list of rows.
union alignas(16) scratch {
  uint4 line[GROUP];
  uint2 granule[16];
  struct listed {
    const char *row;
    float weight;
    uint32_t seat;
  } rows[16]; // top-k at most
};

// EACH: chunks of a packet. Where there are scales, scale[i] is the one of the chunk of iteration i of the lane's
// group.
template <int EACH> struct packet {
  static constexpr int ITERATIONS = (EACH + 1 + GROUPS - 1) / GROUPS;
  static constexpr bool SCALES = EACH == CUDA_FP8_CHUNKS;
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

// Puts the packet's last line, and flags, into the registers: after it, v is what is written. [warp]
template <int EACH>
__device__ __forceinline__ void seal(packet<EACH> &p, uint32_t count, uint64_t flag, scratch &scratch) {
  constexpr int ITERATIONS = packet<EACH>::ITERATIONS;
  seat_in_packet at;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ITERATIONS; i++) {
    if (at.lane == GROUP - 1 && at.line(i) < EACH)
      scratch.granule[at.line(i)] = make_uint2(p.v[i].z, p.v[i].w);
    if constexpr (packet<EACH>::SCALES)
      if (at.lane == 0 && at.line(i) < EACH)
        ((uint32_t *)&scratch.granule[EACH])[at.line(i)] = p.scale[i];
  }
  __syncwarp();
  uint4 last = scratch.line[at.lane];
#pragma unroll
  for (int i = 0; i < ITERATIONS; i++) {
    if (at.line(i) == count)
      p.v[i] = last;
    if (at.lane == GROUP - 1) {
      p.v[i].z = (uint32_t)flag;
      p.v[i].w = (uint32_t)(flag >> 32);
    }
  }
}

// A sealed packet on its way to one or more peers. Copies in bulk carry it, from the warp's stage in shared memory: a
// processor's ordinary stores would queue for the links, and all its loads behind them. Not where the way is strict, or
// the device has none.
template <int EACH> struct parcel {
  const packet<EACH> &p;
  char *stage; // [ITERATIONS * GROUPS lines], 128-byte aligned
  uint32_t count;
  bool strict;

  // [warp]
  __device__ __forceinline__ parcel(const packet<EACH> &p, char *stage, uint32_t count, bool strict)
      : p(p), stage(stage), count(count), strict(strict) {
#if __CUDA_ARCH__ >= 900
    if (strict)
      return;
    seat_in_packet at;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++) // the stage has room for more lines than there are
      *(uint4 *)(stage + at.offset(i)) = p.v[i];
    ptx::bulk_fence();
    __syncwarp();
#endif
  }

  // To `offset` from where a lane says; NULL: this lane says nothing. [warp]
  __device__ __forceinline__ void send(char *to, size_t offset) const {
#if __CUDA_ARCH__ >= 900
    if (!strict) {
      if (to)
        ptx::bulk_store(to + offset, stage, (count + 1) * CUDA_LINE);
      return;
    }
#endif
#pragma unroll 1
    for (uint32_t left = __ballot_sync(~0u, to != nullptr); left; left &= left - 1)
      put((char *)__shfl_sync(~0u, (unsigned long long)to, __ffs((int)left) - 1) + offset);
  }

  // Behind the last send. [warp]
  __device__ __forceinline__ void sent() const {
#if __CUDA_ARCH__ >= 900
    if (!strict)
      ptx::bulk_commit();
#endif
  }

  // Before the stage is used again, or its block ends: the copies have been made from it. [warp]
  static __device__ __forceinline__ void wait_until_read() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_read();
    __syncwarp();
#endif
  }
  // The same; and they have arrived. [warp]
  static __device__ __forceinline__ void wait_until_there() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait();
    __syncwarp();
#endif
  }

private:
  __device__ __forceinline__ void put(char *to) const {
    seat_in_packet at;
    bool flags = at.lane == GROUP - 1;
    to += threadIdx.x % WARP * 16;
    if (strict) {
#pragma unroll
      for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
        if (at.line(i) <= count && !flags)
          ptx::store_line(to + i * GROUPS * CUDA_LINE, p.v[i]);
      ptx::fence_system();
      __syncwarp();
      ptx::fence_system(); // by the lanes of the flags, after all others' stores
    }
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
      if (at.line(i) <= count && (!strict || flags))
        ptx::store_line(to + i * GROUPS * CUDA_LINE, p.v[i]);
  }
};

__device__ __forceinline__ bool has_flag(uint4 v, uint64_t flag) {
  return v.z == (uint32_t)flag && v.w == (uint32_t)(flag >> 32);
}

// A packet's lines as they are; some may not be there yet.
template <int EACH> __device__ __forceinline__ void ask_for_packet(packet<EACH> &p, const char *from, uint32_t count) {
  seat_in_packet at;
#pragma unroll
  for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
    if (at.line(i) <= count)
      p.v[i] = ptx::load_line(from + at.offset(i));
}

// Whether what came has all its flags. [warp]
template <int EACH> __device__ __forceinline__ bool is_whole(const packet<EACH> &p, uint32_t count, uint64_t flag) {
  seat_in_packet at;
  bool whole = true;
#pragma unroll
  for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
    if (at.line(i) <= count && at.lane == GROUP - 1)
      whole &= has_flag(p.v[i], flag);
  return __all_sync(~0u, whole);
}

// Both: false, where some line is not there yet. [warp]
template <int EACH>
__device__ __forceinline__ bool load_packet(packet<EACH> &p, const char *from, uint32_t count, uint64_t flag) {
  ask_for_packet(p, from, count);
  return is_whole(p, count, flag);
}

// Puts what the flags pushed out back to its place. The last line stays in `scratch`, with the scales. [warp]
template <int EACH> __device__ __forceinline__ void unseal(packet<EACH> &p, uint32_t count, scratch &scratch) {
  constexpr int ITERATIONS = packet<EACH>::ITERATIONS;
  seat_in_packet at;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ITERATIONS; i++)
    if (at.line(i) == count)
      scratch.line[at.lane] = p.v[i];
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ITERATIONS; i++) {
    if (at.lane == GROUP - 1) {
      uint2 pushed = scratch.granule[at.line(i) % 16];
      p.v[i].z = pushed.x;
      p.v[i].w = pushed.y;
    }
  }
}

// The scale of chunk `lane` of a packet that has been unsealed; of a lane that has no chunk: anything. [warp]
template <int EACH> __device__ __forceinline__ uint32_t packet_scale(const scratch &scratch, uint32_t lane) {
  return ((const uint32_t *)&scratch.granule[EACH])[lane % (2 * (16 - EACH))];
}

// Waits for a packet after a first look at it that was in vain: one lane asks for the flag of the packet's last line,
// so that those who wait leave the cache to those who write. False: the member is lost. [warp]
template <int EACH>
__device__ __forceinline__ bool take_late(packet<EACH> &p, cuda_state *state, uint32_t seat, const char *from,
                                          uint32_t count, uint64_t flag) {
  const uint64_t *last = (const uint64_t *)(from + count * CUDA_LINE + CUDA_LINE - 8);
  patience patience;
  bool whole;
  do {
    bool over = false;
    if (threadIdx.x % WARP == 0)
      while (!over && ptx::load_relaxed(last) != flag)
        over = patience.over(state, seat);
    if (__shfl_sync(~0u, over, 0))
      return false;
    whole = load_packet(p, from, count, flag);
    over = !whole && threadIdx.x % WARP == 0 && patience.over(state, seat);
    if (__shfl_sync(~0u, over, 0))
      return false;
  } while (!whole);
  return true;
}

// Waits for a packet and reads it. False: the member is lost. [warp]
template <int EACH>
__device__ __forceinline__ bool take(packet<EACH> &p, cuda_state *state, uint32_t seat, const char *from,
                                     uint32_t count, uint64_t flag, bool strict, scratch &scratch) {
  if (!load_packet(p, from, count, flag) && !take_late(p, state, seat, from, count, flag))
    return false;
  if (strict) {
    ptx::fence_system();
    load_packet(p, from, count, flag);
  }
  unseal(p, count, scratch);
  return true;
}

#endif
