// The kernels of dispatch for launches that say something of their own: kernels/usual.cuh.
#define CUDA_USUAL false
#include "cuda/dispatch/dispatch.cuh"
#include "cuda/dispatch/kernels.h"

const void *cuda_any_dispatch(uint32_t halves, bool bf16, bool scales) {
  return kernel_of(halves, bf16, scales);
}
