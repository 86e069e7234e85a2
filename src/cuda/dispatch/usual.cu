// The kernels of dispatch for launches that say nothing of their own: kernels/usual.cuh.
#define CUDA_USUAL true
#include "cuda/dispatch/dispatch.cuh"
#include "cuda/dispatch/kernels.h"

const void *cuda_usual_dispatch(uint32_t halves, bool bf16, bool scales) {
  return kernel_of(halves, bf16, scales);
}
