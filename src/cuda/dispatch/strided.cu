// The kernels of dispatch for launches whose only special option is strides of scales: kernels/usual.cuh.
#define CUDA_USUAL   true
#define CUDA_STRIDED true
#include "cuda/dispatch/dispatch.cuh"
#include "cuda/dispatch/kernels.h"

const void *cuda_strided_dispatch(uint32_t halves, bool scales) {
  return scales ? half_of<ROW_GIVEN>(halves) : half_of<ROW_CAST>(halves);
}
