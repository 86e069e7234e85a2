// The one way to wait for another rank: until a flag is raised, or the deadline has passed and the rank is lost.
#ifndef CUDA_WAIT_CUH
#define CUDA_WAIT_CUH

#include "cuda/ptx.cuh"
#include "cuda/state.h"

__device__ __forceinline__ bool reached(uint32_t flag, uint32_t want) {
  return (int32_t)(flag - want) >= 0;
}
__device__ __forceinline__ bool reached(uint64_t flag, uint64_t want) {
  return flag >= want;
}

__device__ __forceinline__ bool is_lost(const cuda_state *state, uint32_t member) {
  return ptx::load_volatile(&state->counters.lost) >> member & 1;
}

// Counts the rounds of a wait and says when it is over: the member is lost, found so here or by another thread.
struct patience {
  uint64_t since;
  uint32_t rounds;

  __device__ __forceinline__ patience() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(cuda_state *state, uint32_t member) {
    __nanosleep(20); // leaves the cache to those who write
    if (++rounds % 64 != 0)
      return false;
    if (is_lost(state, member))
      return true;
    uint64_t now = ptx::time_ns();
    if (since == 0)
      since = now;
    if (now - since <= state->counters.timeout_ns)
      return false;
    atomicOr((unsigned long long *)&state->counters.lost, 1ull << member);
    return true;
  }
};

// True: *flag has come to `want`, and what its writer wrote before is visible to the calling thread. False: the member
// is lost.
template <typename Word>
__device__ __forceinline__ bool wait_flag(cuda_state *state, uint32_t member, const Word *flag, Word want) {
  patience patience;
  while (!reached(ptx::load_acquire(flag), want))
    if (patience.over(state, member))
      return false;
  return true;
}

// Waits until the unit's flag is `want`; `unit` holds a first look at it.
__device__ __forceinline__ bool wait_unit(cuda_state *state, uint32_t member, const void *from, uint32_t want,
                                          uint4 &unit) {
  patience patience;
  while (unit.w != want) {
    if (patience.over(state, member))
      return false;
    unit = ptx::load_unit(from);
  }
  return true;
}

#endif
