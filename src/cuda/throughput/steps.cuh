// The kernels of a dispatch run concurrently if they can. One that is launched early starts when all blocks of the one
// ahead have started, and waits for words in the operation's struct (op.h) instead of for that kernel's end.
//
// Code that waits for the end of the last kernel relies on the end of all of them. So each kernel waits for the end of
// the one ahead before it ends itself.
#ifndef CUDA_THROUGHPUT_STEPS_CUH
#define CUDA_THROUGHPUT_STEPS_CUH

#include "cuda/kernels/ptx.cuh"

// Publishes that a step is done. A thread that reads `value` or more from the word also sees all that this thread wrote
// before, and all that other threads wrote before a barrier. Two threads may publish two steps in any order.
__device__ __forceinline__ void publish_step(uint64_t *word, uint64_t value) {
  __threadfence();
  atomicMax((unsigned long long *)word, (unsigned long long)value);
}
// The same for a step that several threads do together: each adds its part to the word.
__device__ __forceinline__ void count_step(uint64_t *word, uint64_t count) {
  __threadfence();
  atomicAdd((unsigned long long *)word, (unsigned long long)count);
}
// No step is done yet. To be called before the kernel that waits for it may start.
__device__ __forceinline__ void clear_step(uint64_t *word) {
  ptx::store_relaxed(word, 0);
  __threadfence();
}
// Waits until `value`, or more, has been published. It has no deadline: the kernels of this rank that publish it run
// already, and have deadlines of their own. [one thread, barrier to follow]
__device__ __forceinline__ void await_step(const uint64_t *word, uint64_t value) {
  while (ptx::load_acquire(word) < value)
    continue;
}
// Waits until the low half is at least `count`; returns the high half. Otherwise the same.
__device__ __forceinline__ uint32_t await_count(const uint64_t *word, uint32_t count) {
  uint64_t there = ptx::load_acquire(word);
  while ((uint32_t)there < count)
    there = ptx::load_acquire(word);
  return (uint32_t)(there >> 32);
}

#endif
