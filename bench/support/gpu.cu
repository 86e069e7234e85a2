// GPUs for benchmarks: their number, and a kernel that only takes time.
#include "gpu.h"

#include <cuda_runtime.h>

namespace {

__device__ uint64_t now_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void spin(uint64_t ns) {
  uint64_t begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}

} // namespace

int bench_count_gpus(void) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int bench_spin(uint32_t us, void *stream) {
  spin<<<1, 1, 0, (cudaStream_t)stream>>>((uint64_t)us * 1000);
  return (int)cudaGetLastError();
}
