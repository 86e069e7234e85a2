// The kernels of dispatch for launches with any options: kernels/usual.cuh.
#define CUDA_USUAL false
#include "cuda/dispatch/dispatch.cuh"
#include "cuda/dispatch/kernels.h"

const void *cuda_any_dispatch(uint32_t halves, bool bf16, bool scales) {
  return bf16 ? half_of<ROW_BF16>(halves) : scales ? half_of<ROW_GIVEN>(halves) : half_of<ROW_CAST>(halves);
}
