// Warps that share a channel: a producer warp finds jobs, and consumer warps do them.
#ifndef CUDA_ANSWERS_WARP_GROUP_CUH
#define CUDA_ANSWERS_WARP_GROUP_CUH

#include "cuda/throughput/channel.cuh"

// The warp group to which a warp belongs. The first warp of a group is its producer, which finds jobs; the others are
// its consumers, which do them. So no warp needs the registers for both. If a kind has `count` groups, group i serves
// channels i, i + count and so on.
struct warp_group {
  uint32_t index, count; // of the group, among all of its kind
  uint32_t warp, warps;  // warp: index of this warp in the group; warps: of the group
  uint32_t local;        // index of the group in the block
  bool works;            // this warp belongs to a group

  // For a kind that has warps [first, first + most) of blocks [block, block + blocks), with `each` warps in a group.
  __device__ __forceinline__ warp_group(uint32_t block, uint32_t blocks, uint32_t first, uint32_t most, uint32_t each) {
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

// Finds a role's jobs, one after the other, each while the consumers do the previous one. ROLE has find(job),
// finished(job, whether there are more), flush(), end() and `channel`. When this warp publishes after a barrier, this
// covers the consumers' stores.
//
// If a job does not come soon, an empty one takes its place, so that the previous job is finished: the rows of that one
// are published, or get their credit. Other ranks may wait for that before they do what the next job waits for.
// [producer]
template <typename ROLE>
__device__ __forceinline__ void run_producer(ROLE &role, const warp_group &group, uint32_t barrier) {
  enum : uint32_t { SOON = 16 }; // looks; about as long as consumers need for a job
  mover_job *jobs = role.channel.memory.jobs;
  channel_wait wait;
  uint32_t looks = 0;
  bool works = false; // the consumers do the previous job
#pragma unroll 1
  for (uint32_t i = 0;;) {
    mover_job &job = jobs[i % 2];
    found_job found = role.find(job);
    __syncwarp();
    if (found == JOB_WAITS && (!works || looks < SOON)) {
      if (looks++ == 0) {
        role.flush();
        wait = channel_wait();
      }
      wait.step(role.channel);
      continue;
    }
    if (found != JOB_READY && threadIdx.x % WARP == 0)
      job.outputs = found == JOB_WAITS ? 0 : CUDA_WAY_NONE;
    group.sync(barrier); // this job is complete, and the previous one is done
    if (works)
      role.finished(jobs[(i + 1) % 2], found != JOB_NONE);
    if (found == JOB_NONE)
      break;
    works = found == JOB_READY;
    looks = 0;
    i++;
    __syncwarp();
  }
  role.end();
}
// Does these jobs, each with `work`. [consumers]
template <typename WORK>
__device__ __forceinline__ void run_consumers(channel_memory &memory, const warp_group &group, uint32_t barrier,
                                              WORK work) {
#pragma unroll 1
  for (uint32_t i = 0;; i++) {
    group.sync(barrier);
    const mover_job &job = memory.jobs[i % 2];
    if (job.outputs == CUDA_WAY_NONE)
      break;
    if (job.outputs == 0)
      continue;
    work(job, mover_share{group.warp - 1, group.warps - 1});
  }
}

// Serves all channels of a group: find_jobs() is the producer's part, with a ROLE for each channel, constructed from
// the memory, the channel and `args`. do_jobs() is the consumers' part. It is not inlined, so that neither part keeps
// registers for the other. [warp]
template <typename ROLE, typename... ARGS>
__device__ __forceinline__ void find_jobs(const warp_group &group, channel_memory &memory, uint32_t barrier,
                                          const ARGS &...args) {
#pragma unroll 1
  for (uint32_t c = group.index; c < CUDA_CHANNELS; c += group.count) {
    ROLE role(memory, c, args...);
    run_producer(role, group, barrier);
    group.sync(barrier); // the memory can be used again
  }
}
template <typename WORK>
static __device__ __noinline__ void do_jobs(const warp_group group, channel_memory &memory, uint32_t barrier,
                                            const WORK work) {
#pragma unroll 1
  for (uint32_t c = group.index; c < CUDA_CHANNELS; c += group.count) {
    run_consumers(memory, group, barrier, work);
    group.sync(barrier);
  }
}
template <typename ROLE, typename WORK, typename... ARGS>
__device__ __forceinline__ void run_channels(const warp_group &group, channel_memory *all, const WORK &work,
                                             const ARGS &...args) {
  uint32_t first = threadIdx.x / WARP - group.warp, barrier = 1 + first / 2; // groups have two warps at least
  if (group.warp == 0)
    find_jobs<ROLE>(group, all[first / 2], barrier, args...);
  else
    do_jobs(group, all[first / 2], barrier, work);
}

#endif
