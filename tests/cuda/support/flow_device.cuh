// Memory of a GPU for ranks of many tokens.
#ifndef TESTS_CUDA_FLOW_DEVICE_CUH
#define TESTS_CUDA_FLOW_DEVICE_CUH

#include "cuda/support/devices.cuh"

// Allocates zeros, with some unused room after them.
template <typename T> T *device_array(size_t count) {
  void *p;
  OK(cudaMalloc(&p, count * sizeof(T) + 256));
  OK(cudaMemset(p, 0, count * sizeof(T) + 256));
  return (T *)p;
}
template <typename T> T *device_copy_of(const std::vector<T> &v) {
  T *p = device_array<T>(v.size() + 1);
  OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}

#endif
