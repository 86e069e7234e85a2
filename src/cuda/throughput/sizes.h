// For the launchers: how the channels are divided among the warps of blocks.
#ifndef CUDA_THROUGHPUT_SIZES_H
#define CUDA_THROUGHPUT_SIZES_H

#include "cuda/kernels/launch.h"
#include "cuda/throughput/stage.cuh"

// Warps of a block: as many as can have the registers that they need. In a block that sends rows the last one is the
// publisher (publisher.cuh).
enum { ROWS_WARPS = 24, ANSWERS_WARPS = 16 };

// Turns that the warps of `blocks`, at most `most` warps in each, need until each channel has been served. 0 blocks: 0
// turns.
static inline uint32_t turns_of(uint32_t blocks, uint32_t most) {
  return blocks == 0 ? 0 : (CUDA_CHANNELS + blocks * most - 1) / (blocks * most);
}
// The number of warps in each block that makes all these turns equal. 0 turns: no warps. With more warps only few
// channels would be left for the last turn, and few warps do not keep a processor busy.
static inline uint32_t warps_of(uint32_t blocks, uint32_t turns) {
  return blocks * turns == 0 ? 0 : (CUDA_CHANNELS + blocks * turns - 1) / (blocks * turns);
}

// Number of a block's warps that have a role, and warps in each warp group.
struct flow_role {
  uint32_t warps, group;
};

// Chooses sizes for `blocks` with up to `most` warps each. `work`: time that one warp takes to move a row, relative to
// the time to find it. The result minimises the number of turns times the longer of the two times.
static inline flow_role flow_role_of(uint32_t blocks, uint32_t most, float work) {
  flow_role best = {2, 2};
  float least = 0;
  for (uint32_t group = 2; group <= 8 && group <= most; group++) {
    uint32_t groups = most / group, turns = turns_of(blocks, groups);
    float each = work / (float)(group - 1), time = (float)turns * (each > 1 ? each : 1);
    if (least == 0 || time < least) {
      best = {groups * group, group};
      least = time;
    }
  }
  return best;
}

// Blocks of a combine that send answers: `both` if other blocks add. If the launch has one half only, all blocks do
// that half.
static inline uint32_t answerers_of(const cuda_answers_args &args, uint32_t blocks, uint32_t both) {
  return args.halves == DEVICE_SEND ? blocks : args.halves == DEVICE_RECV ? 0 : both;
}

// Shared memory of warp groups.
static inline size_t flow_memory(uint32_t warps) {
  return warps / 2 * sizeof(channel_memory);
}

// Bytes of shared memory on the current device for the stages of a block of `warps` warps, each with its own channel.
enum { STAGES_STATIC = 9 * 1024 }; // most static shared memory of a kernel
static inline uint32_t stages_room(uint32_t warps) {
  int device = 0, limit = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    limit = 96 * 1024; // the smallest value among the devices for which there is code
  return (uint32_t)limit - STAGES_STATIC - warps * (uint32_t)sizeof(channel_memory);
}

#endif
