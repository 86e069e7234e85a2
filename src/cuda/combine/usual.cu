// The kernels of combine for launches without special options: kernels/usual.cuh.
#define CUDA_USUAL true
#include "cuda/combine/combine.cuh"

const void *cuda_usual_combine(uint32_t halves, bool coded) {
  return coded ? half_of<true>(halves) : half_of<false>(halves);
}
