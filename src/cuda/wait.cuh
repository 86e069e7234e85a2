// The one way to wait for another rank: until a flag is raised, or the deadline has passed and the rank is lost.
#ifndef CUDA_WAIT_CUH
#define CUDA_WAIT_CUH

#include "cuda/ptx.cuh"
#include "cuda/state.h"

__device__ __forceinline__ bool is_lost(const cuda_state *state, uint32_t seat) {
  uint64_t lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
  return seat >= DEVICE_SEATS || (lost >> seat & 1);
}

// From now on nobody waits for it, and the host hears of it.
__device__ __forceinline__ void lose(cuda_state *state, uint32_t seat) {
  uint64_t before = atomicOr((unsigned long long *)&state->counters.lost, 1ull << seat);
  if (!(before >> seat & 1))
    atomicOr_system((unsigned long long *)&state->report->lost, 1ull << seat);
}

// Counts the rounds of a wait and says when it is over: the link is down, or its seat is lost, found so here or by
// another thread.
struct patience {
  uint64_t since;
  uint32_t rounds;

  __device__ __forceinline__ patience() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(cuda_state *state, uint32_t seat) {
    __nanosleep(20); // leaves the cache to those who write
    return ++rounds % 64 == 0 && (since = look_up(state, seat, since)) == OVER;
  }

private:
  enum : uint64_t { OVER = UINT64_MAX };
  // Since when there has been waiting, or OVER. By value: what is pointed to would live in memory.
  static __device__ __noinline__ uint64_t look_up(cuda_state *state, uint32_t seat, uint64_t since) {
    if (is_lost(state, seat))
      return OVER;
    uint64_t now = ptx::time_ns();
    if (since == 0)
      since = now;
    if (now - since <= ptx::load_volatile(&state->control.timeout_ns))
      return since;
    lose(state, seat);
    return OVER;
  }
};

// For waits among the blocks of one kernel, all of which are bounded by the one above: far beyond it, so that a defect
// of ours is no hang.
struct long_patience {
  uint64_t since;
  uint32_t rounds;

  __device__ __forceinline__ long_patience() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(const cuda_state *state) {
    __nanosleep(100);
    if (++rounds % 64 != 0)
      return false;
    uint64_t now = ptx::time_ns();
    if (since == 0)
      since = now;
    return now - since > 8 * ptx::load_volatile(&state->control.timeout_ns);
  }
};

// Waits until the unit's flag is `want`; `unit` holds a first look at it.
__device__ __forceinline__ bool wait_unit(cuda_state *state, uint32_t seat, const void *from, uint32_t want,
                                          uint4 &unit) {
  patience patience;
  while (unit.w != want) {
    if (patience.over(state, seat))
      return false;
    unit = ptx::load_unit(from);
  }
  return true;
}

#endif
