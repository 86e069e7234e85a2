// How the warps of blocks share the channels out, for the launchers.
#ifndef CUDA_THROUGHPUT_SIZES_H
#define CUDA_THROUGHPUT_SIZES_H

#include "cuda/kernels/launch.h"
#include "cuda/throughput/stage.cuh"

// Warps of a block: as many as have the registers that they need. In a block that sends rows the last one is
// the publisher (publisher.cuh).
enum { ROWS_WARPS = 24, ANSWERS_WARPS = 16 };

// How often the warps of `blocks`, at most `most` of each, go round until each channel has been served. 0 blocks:
// never.
static inline uint32_t turns_of(uint32_t blocks, uint32_t most) {
  return blocks == 0 ? 0 : (CUDA_CHANNELS + blocks * most - 1) / (blocks * most);
}
// Warps of each block with which all these turns are alike. 0 turns: none. With more of them few channels would be left
// for the last turn, and few warps do not keep a processor busy.
static inline uint32_t warps_of(uint32_t blocks, uint32_t turns) {
  return blocks * turns == 0 ? 0 : (CUDA_CHANNELS + blocks * turns - 1) / (blocks * turns);
}

// Warps of a block that play a role, and of them those of a warp group.
struct flow_role {
  uint32_t warps, group;
};

// For `blocks` with up to `most` warps each. `work`: how long a row takes one warp that moves it, beside how long it
// takes to find it. The sizes that make the least of turns times the longer of both.
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

// Blocks of a combine that answer, of which `both` do where others add. Of a single half all do the same.
static inline uint32_t answerers_of(const cuda_answers_args &args, uint32_t blocks, uint32_t both) {
  return args.halves == DEVICE_SEND ? blocks : args.halves == DEVICE_RECV ? 0 : both;
}

// Of warp groups.
static inline size_t flow_memory(uint32_t warps) {
  return warps / 2 * sizeof(channel_memory);
}

// Bytes of shared memory that the current device has for the stages of a block of so many warps, each with its own
// channel.
enum { STAGES_STATIC = 9 * 1024 }; // what a kernel has of itself, at most
static inline uint32_t stages_room(uint32_t warps) {
  int device = 0, limit = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    limit = 96 * 1024; // the least of those for which there is code
  return (uint32_t)limit - STAGES_STATIC - warps * (uint32_t)sizeof(channel_memory);
}

#endif
