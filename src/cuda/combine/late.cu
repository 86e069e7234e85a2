// The kernels of combine for launches whose only special option is late weights: kernels/usual.cuh. All of them answer,
// since a launch that only adds sends no weights.
#define CUDA_USUAL true
#define CUDA_LATE  true
#include "cuda/combine/combine.cuh"

template <bool CODED> static const void *late_half_of(uint32_t halves) {
  return halves == DEVICE_SEND ? (const void *)combine<true, false, CODED> : (const void *)combine<true, true, CODED>;
}

const void *cuda_late_combine(uint32_t halves, bool coded) {
  return coded ? late_half_of<true>(halves) : late_half_of<false>(halves);
}
