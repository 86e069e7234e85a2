// The kernels of combine: for usual launches, for launches with late weights, and for all launches (kernels/usual.cuh);
// and the warps and shared memory of each block.
#ifndef CUDA_COMBINE_KERNELS_CUH
#define CUDA_COMBINE_KERNELS_CUH

#include "cuda/combine/sum_ranks.cuh"

// `halves`: DEVICE_SEND, DEVICE_RECV. `coded`: answers are encoded as logfmt10.
const void *cuda_usual_combine(uint32_t halves, bool coded);
const void *cuda_late_combine(uint32_t halves, bool coded); // always answers
const void *cuda_any_combine(uint32_t halves, bool coded);

// Warps of a block: so few that each has all the registers that it needs.
static constexpr uint32_t COMBINE_WARPS = 16, COMBINE_BLOCK = COMBINE_WARPS * WARP;

// Number of answering warps, for the halves that a kernel does: if it also adds, all warps except one team.
__host__ __device__ constexpr uint32_t answerers_of(bool answers, bool adds) {
  return !answers ? 0 : adds ? COMBINE_WARPS - TEAM : COMBINE_WARPS;
}
// The shared memory of a block. Code for devices before Hopper needs no stages and must use less: a block can have 163
// KB there, and 99 KB on devices of compute capability 8.6 and 8.9.
struct combine_room {
  uint32_t stage, aside; // for each answering warp: bytes of the stage, and rows prefetched aside
  __host__ __device__ constexpr combine_room(bool before_hopper, bool adds, bool coded)
      : stage(before_hopper ? 0 : (uint32_t)STAGE), aside((adds ? 8 : 4) >> before_hopper) {
    aside -= before_hopper && coded;
  }
  __host__ __device__ constexpr uint32_t answerer() const { return stage + aside * ROW_ASIDE; }
};

#endif
