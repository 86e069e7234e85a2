// How the warps of a block share its memory out, for the launchers.
#ifndef CUDA_THROUGHPUT_SIZES_H
#define CUDA_THROUGHPUT_SIZES_H

#include "cuda/kernels/launch.h"
#include "cuda/throughput/channel.cuh"

// Of each kind, of a block: so that all channels are served in as few turns as there have to be.
static inline uint32_t pump_warps(uint32_t blocks) {
  uint32_t turns = (CUDA_CHANNELS + blocks * PUMP_MOST_WARPS - 1) / (blocks * PUMP_MOST_WARPS);
  return (CUDA_CHANNELS + blocks * turns - 1) / (blocks * turns);
}

// As many stages as there is room for. Returns the bytes of a block; *each: of a warp.
static inline size_t pump_share(pump_shape *writes, pump_shape *reads, uint32_t warps, uint32_t *each) {
  enum { ROOM = 227 * 1024 - 9 * 1024 }; // besides what the kernels have of themselves
  uint32_t share = ROOM / (2 * warps) / 128 * 128;
  size_t most = 0;
  pump_shape *shapes[] = {writes, reads};
  for (pump_shape *shape : shapes) {
    shape->stages = 2;
    while (shape->stages < PUMP_MOST_STAGES) {
      shape->stages++;
      if (pump_bytes(*shape) > share) {
        shape->stages--;
        break;
      }
    }
    most = pump_bytes(*shape) > most ? pump_bytes(*shape) : most;
  }
  *each = (uint32_t)most;
  return most * 2 * warps;
}

#endif
