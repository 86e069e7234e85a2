// The kernels of combine: for usual launches, for late weights and for all (kernels/usual.cuh); what each block has.
#ifndef CUDA_COMBINE_KERNELS_CUH
#define CUDA_COMBINE_KERNELS_CUH

#include "cuda/combine/sum_ranks.cuh"

// `halves`: DEVICE_SEND, DEVICE_RECV. `coded`: answers travel as logfmt10.
const void *cuda_usual_combine(uint32_t halves, bool coded);
const void *cuda_late_combine(uint32_t halves, bool coded); // that answer
const void *cuda_any_combine(uint32_t halves, bool coded);

// Warps of a block, few enough that each has all the registers that it needs.
static constexpr uint32_t COMBINE_WARPS = 16, COMBINE_BLOCK = COMBINE_WARPS * WARP;

// Those that answer, by the halves that a kernel does: where it adds too, all but a team.
__host__ __device__ constexpr uint32_t answerers_of(bool answers, bool adds) {
  return !answers ? 0 : adds ? COMBINE_WARPS - TEAM : COMBINE_WARPS;
}
// What a block has in shared memory. Code for devices before Hopper needs no stages, and suffices with less: a block
// has 163 KB there, and 99 on devices of compute capability 8.6 and 8.9.
struct combine_room {
  uint32_t stage, aside; // of a warp that answers: bytes, and rows
  __host__ __device__ constexpr combine_room(bool before_hopper, bool adds, bool coded)
      : stage(before_hopper ? 0 : (uint32_t)STAGE), aside((adds ? 8 : 4) >> before_hopper) {
    aside -= before_hopper && coded;
  }
  __host__ __device__ constexpr uint32_t answerer() const { return stage + aside * ROW_ASIDE; }
};

#endif
