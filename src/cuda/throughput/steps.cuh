// The kernels of a dispatch run side by side where they can. One that is launched early starts when all blocks of the
// one ahead have started, and waits for words in the operation's struct (op.h) instead of for that kernel's end.
//
// Whoever waits for the end of the last one has to find all of them ended. So each waits for the end of the one ahead
// before it ends itself.
#ifndef CUDA_THROUGHPUT_STEPS_CUH
#define CUDA_THROUGHPUT_STEPS_CUH

#include "cuda/kernels/ptx.cuh"

// What this thread has done, or others before a barrier, is there for whoever finds `value`, or more. Two threads may
// say two steps in any order.
__device__ __forceinline__ void say_step(uint64_t *word, uint64_t value) {
  __threadfence();
  atomicMax((unsigned long long *)word, (unsigned long long)value);
}
// The same, where several say it together: adds to a word.
__device__ __forceinline__ void count_step(uint64_t *word, uint64_t count) {
  __threadfence();
  atomicAdd((unsigned long long *)word, (unsigned long long)count);
}
// Nothing of it is there; before the kernel is let in that waits for it.
__device__ __forceinline__ void clear_step(uint64_t *word) {
  ptx::store_relaxed(word, 0);
  __threadfence();
}
// Waits for that, or for more; no deadline, since kernels of this rank say it that run already, and have deadlines of
// their own. [one thread, barrier to follow]
__device__ __forceinline__ void await_step(const uint64_t *word, uint64_t value) {
  while (ptx::load_acquire(word) < value)
    continue;
}
// Waits until `count` have been counted in the low half; returns the high half. Otherwise the same.
__device__ __forceinline__ uint32_t await_count(const uint64_t *word, uint32_t count) {
  uint64_t there = ptx::load_acquire(word);
  while ((uint32_t)there < count)
    there = ptx::load_acquire(word);
  return (uint32_t)(there >> 32);
}

#endif
