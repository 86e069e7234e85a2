// What the blocks of the kernels that move rows have, for the launchers.
#ifndef CUDA_THROUGHPUT_SIZES_H
#define CUDA_THROUGHPUT_SIZES_H

#include "cuda/kernels/launch.h"
#include "cuda/throughput/stage.cuh"

// Warps of a block, of which the last tells where the others write to rings; and the most bytes of a stage of rows.
enum { ROWS_WARPS = 24, ANSWERS_WARPS = 16, ROWS_STAGE = 7168 };

// Bytes of shared memory that the current device has for the stages of a block of so many warps.
enum { FLOW_STATIC = 9 * 1024 }; // what a kernel has of itself, at most
static inline uint32_t flow_room(uint32_t warps) {
  int device = 0, limit = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    limit = 48 * 1024;
  return (uint32_t)limit - FLOW_STATIC - warps * (uint32_t)sizeof(channel_memory);
}
static inline size_t flow_memory(uint32_t warps, uint32_t stages) {
  return warps * sizeof(channel_memory) + stages;
}

// Warps that work in each of the blocks that do one thing, and the bytes of their stages. There is no use for more
// warps than channels; fewer have larger stages.
struct flow_part {
  uint32_t warps, stage;
};
static inline flow_part flow_part_of(uint32_t blocks, uint32_t most, uint32_t room) {
  uint32_t needed = blocks ? (CUDA_CHANNELS + blocks - 1) / blocks : 1, warps = needed < most ? needed : most;
  return {warps, room / warps / (4 * STAGE_UNIT) * (4 * STAGE_UNIT)};
}

#endif
