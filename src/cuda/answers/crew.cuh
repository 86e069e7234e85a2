// Warps that share a channel: one finds jobs, the others do them.
#ifndef CUDA_ANSWERS_CREW_CUH
#define CUDA_ANSWERS_CREW_CUH

#include "cuda/throughput/channel.cuh"

// Which channels a warp serves, and with whom: a crew has a warp that finds jobs and some that do them, so that none of
// them needs the registers of both. Crew i of each kind serves channels i, i + crews and so on.
struct crew {
  uint32_t index, count; // of the crew, among all of its kind
  uint32_t warp, warps;  // of this warp in it; how many they are
  uint32_t local;        // of the crew in the block
  bool works;            // this warp is in one

  // Of a kind that has warps [first, first + most) of blocks [block, block + blocks), `each` to a crew.
  __device__ __forceinline__ crew(uint32_t block, uint32_t blocks, uint32_t first, uint32_t most, uint32_t each) {
    uint32_t mine = threadIdx.x / WARP - first;
    local = mine / each;
    warp = mine % each;
    warps = each;
    works = blockIdx.x - block < blocks && mine < most && local < most / each;
    index = local * blocks + blockIdx.x - block;
    count = most / each * blocks;
  }
  __device__ __forceinline__ void sync(uint32_t barrier) const { ptx::barrier((int)barrier, (int)(warps * WARP)); }
};

// Finds a role's jobs, one after the other, each while the crew's others do the one before. ROLE has find(job),
// finished(job, whether there are more), flush(), end() and `channel`. What this warp tells behind a barrier covers the
// others' stores. [crew's first]
template <typename ROLE> __device__ __forceinline__ void run_first(ROLE &role, const crew &crew, uint32_t barrier) {
  mover_job *jobs = role.channel.memory.jobs;
#pragma unroll 1
  for (uint32_t i = 0;; i++) {
    mover_job &job = jobs[i % 2];
    bool here = await_job(role, job);
    if (!here && threadIdx.x % WARP == 0)
      job.outputs = CUDA_WAY_NONE;
    crew.sync(barrier); // this job is known, and the one before it is done
    if (i > 0)
      role.finished(jobs[(i + 1) % 2], here);
    if (!here)
      break;
    __syncwarp();
  }
  role.end();
}
// Do them, `work` each. [crew's others]
template <typename WORK>
__device__ __forceinline__ void run_others(channel_memory &memory, const crew &crew, uint32_t barrier, WORK work) {
#pragma unroll 1
  for (uint32_t i = 0;; i++) {
    crew.sync(barrier);
    const mover_job &job = memory.jobs[i % 2];
    if (job.outputs == CUDA_WAY_NONE)
      break;
    work(job, mover_share{crew.warp - 1, crew.warps - 1});
  }
}

// Of all channels of a crew: what its first warp does, with a ROLE for each, made of the memory, the channel and
// `args`; and what the others do: a function of its own, so that neither keeps registers for the other. [warp]
template <typename ROLE, typename... ARGS>
__device__ __forceinline__ void find_jobs(const crew &crew, channel_memory &memory, uint32_t barrier,
                                          const ARGS &...args) {
#pragma unroll 1
  for (uint32_t c = crew.index; c < CUDA_CHANNELS; c += crew.count) {
    ROLE role(memory, c, args...);
    run_first(role, crew, barrier);
    crew.sync(barrier); // the memory is free
  }
}
template <typename WORK>
static __device__ __noinline__ void do_jobs(const crew crew, channel_memory &memory, uint32_t barrier,
                                            const WORK work) {
#pragma unroll 1
  for (uint32_t c = crew.index; c < CUDA_CHANNELS; c += crew.count) {
    run_others(memory, crew, barrier, work);
    crew.sync(barrier);
  }
}
template <typename ROLE, typename WORK, typename... ARGS>
__device__ __forceinline__ void run_channels(const crew &crew, channel_memory *all, const WORK &work,
                                             const ARGS &...args) {
  uint32_t first = threadIdx.x / WARP - crew.warp, barrier = 1 + first / 2; // crews have two warps at least
  if (crew.warp == 0)
    find_jobs<ROLE>(crew, all[first / 2], barrier, args...);
  else
    do_jobs(crew, all[first / 2], barrier, work);
}

#endif
