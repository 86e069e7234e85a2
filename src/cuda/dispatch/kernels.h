// The kernels of dispatch: for usual launches, for launches with strides of scales, and for all launches
// (kernels/usual.cuh).
#ifndef CUDA_DISPATCH_KERNELS_H
#define CUDA_DISPATCH_KERNELS_H

#include <cstdint>

// `halves`: DEVICE_SEND, DEVICE_RECV. `scales`: rows that are not bf16 are given with scales.
const void *cuda_usual_dispatch(uint32_t halves, bool bf16, bool scales);
const void *cuda_strided_dispatch(uint32_t halves, bool scales);
const void *cuda_any_dispatch(uint32_t halves, bool bf16, bool scales);

#endif
