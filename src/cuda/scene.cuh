// What each block reads first: the counters, the view, and what the peers have taken.
#ifndef CUDA_SCENE_CUH
#define CUDA_SCENE_CUH

#include "cuda/args.h"
#include "cuda/team.cuh"
#include "cuda/wait.cuh"

// Built with CUDA_TRACE, one thread of each block notes the time at which it comes to step i (0 to 7).
__device__ __forceinline__ void trace(uint64_t *stamps, uint32_t i, bool one) {
#ifdef CUDA_TRACE
  if (one && stamps)
    stamps[blockIdx.x * 8 + i] = ptx::time_ns();
#else
  (void)stamps, (void)i, (void)one;
#endif
}

struct scene {
  cuda_counters counters;
  cuda_member members[CUDA_MAX_MEMBERS];
};

// What a kernel does, and so which counters it moves on.
struct steps {
  bool sends, receives, answers, combines;
};

// Reads the view and the counters; tells the peers what the kernels before have taken; counts what this kernel begins.
// Ends with a barrier of the block.
__device__ __forceinline__ void scene_begin(scene &scene, cuda_state *state, steps steps) {
  uint32_t tid = threadIdx.x;
  const uint64_t *from = (const uint64_t *)&state->counters;
  if (tid < sizeof(cuda_counters) / 8)
    ((uint64_t *)&scene.counters)[tid] = ptx::load_volatile(from + tid);
  else if (tid >= WARP && tid < WARP + CUDA_MAX_MEMBERS)
    scene.members[tid - WARP] = state->members[tid - WARP];
  __syncthreads();
  const cuda_counters &now = scene.counters;
  uint32_t behind = BLOCK - 1 - tid; // the last threads have least to do
  if (blockIdx.x == gridDim.x - 1 && behind < now.count) {
    // The end of the kernels before has ordered what they read before these stores.
    cuda_area_head *head = (cuda_area_head *)scene.members[behind].out;
    ptx::store_relaxed(&head->taken_dispatch, now.received);
    ptx::store_relaxed(&head->taken_combine, now.combined);
  }
  if (behind == 0 && atomicAdd((unsigned long long *)&state->arrived, 1) == gridDim.x - 1) {
    state->arrived = 0;
    state->counters.sent = now.sent + steps.sends;
    state->counters.received = now.received + steps.receives;
    state->counters.answered = now.answered + steps.answers;
    state->counters.combined = now.combined + steps.combines;
  }
}

// Which members have taken what this operation's slots held before, by bit; who has not in time is lost. [warp]
__device__ __forceinline__ uint64_t await_credit(cuda_state *state, const scene &scene, uint64_t op,
                                                 uint64_t cuda_area_head::*taken) {
  uint64_t open = 0;
  for (uint32_t base = 0; base < scene.counters.count; base += WARP) {
    uint32_t m = base + threadIdx.x % WARP;
    bool ok = false;
    if (m < scene.counters.count && !(scene.counters.lost >> m & 1)) {
      const cuda_area_head *head = (const cuda_area_head *)scene.members[m].in;
      ok = op < scene.members[m].since + CUDA_DEPTH || wait_flag(state, m, &(head->*taken), op + 1 - CUDA_DEPTH);
    }
    open |= (uint64_t)__ballot_sync(~0u, ok) << base;
  }
  return open;
}

__device__ __forceinline__ char *slot_of(const cuda_layout &layout, char *area, uint64_t op) {
  return area + sizeof(cuda_area_head) + (op % CUDA_DEPTH) * layout.slot;
}

#endif
