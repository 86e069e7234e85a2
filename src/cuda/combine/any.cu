// The kernels of combine for launches with any options: kernels/usual.cuh.
#define CUDA_USUAL false
#include "cuda/combine/combine.cuh"

const void *cuda_any_combine(uint32_t halves, bool coded) {
  return coded ? half_of<true>(halves) : half_of<false>(halves);
}
