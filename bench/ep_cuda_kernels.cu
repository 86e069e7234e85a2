// Measures the rate at which GPUs store to each other. It is the bound for dispatch and combine.
#include "ep_cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "support/try.cuh"

namespace {

enum { MAX_DEVICES = 16, ROUNDS = 2, REPEATS = 32, THREADS = 1024 };
const size_t BYTES = (size_t)64 << 20; // bytes that each device stores in a launch

struct targets {
  uint4 *to[MAX_DEVICES];
  uint32_t count;
};

// Block i stores to target i % count.
__global__ void store_to(const targets targets, size_t count) {
  uint4 *to = targets.to[blockIdx.x % targets.count];
  size_t blocks = gridDim.x / targets.count, block = blockIdx.x / targets.count;
  for (size_t i = block * blockDim.x + threadIdx.x; i < count; i += blocks * blockDim.x)
    to[i] = make_uint4((uint32_t)i, 1, 2, 3);
}

struct gpu {
  char *memory;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  int processors;
};

int prepare(std::vector<gpu> &gpus, int index) {
  gpu &gpu = gpus[index];
  TRY(cudaSetDevice(index));
  for (int peer = 0; peer < (int)gpus.size(); peer++)
    if (peer != index)
      TRY(cudaDeviceEnablePeerAccess(peer, 0));
  TRY(cudaMalloc((void **)&gpu.memory, BYTES * gpus.size()));
  TRY(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking));
  TRY(cudaEventCreate(&gpu.begin));
  TRY(cudaEventCreate(&gpu.end));
  TRY(cudaDeviceGetAttribute(&gpu.processors, cudaDevAttrMultiProcessorCount, index));
  return 0;
}

int launch(const std::vector<gpu> &gpus, int index) {
  const gpu &gpu = gpus[index];
  int devices = (int)gpus.size();
  targets targets = {};
  for (int k = 1; k < devices; k++)
    targets.to[targets.count++] = (uint4 *)(gpus[(index + k) % devices].memory + index * BYTES);
  if (targets.count == 0)
    targets.to[targets.count++] = (uint4 *)gpu.memory;
  uint32_t blocks = std::max((uint32_t)gpu.processors / targets.count, 1u) * targets.count;
  TRY(cudaSetDevice(index));
  TRY(cudaEventRecord(gpu.begin, gpu.stream));
  for (int i = 0; i < REPEATS; i++)
    store_to<<<blocks, THREADS, 0, gpu.stream>>>(targets, BYTES / sizeof(uint4) / targets.count);
  TRY(cudaGetLastError());
  TRY(cudaEventRecord(gpu.end, gpu.stream));
  return 0;
}

} // namespace

int ep_cuda_rate(int devices, double *rate) {
  std::vector<gpu> gpus(std::min(devices, (int)MAX_DEVICES));
  int rc = 0, count = (int)gpus.size();
  for (int i = 0; i < count && rc == 0; i++)
    rc = prepare(gpus, i);
  for (int round = 0; round < ROUNDS && rc == 0; round++) { // the first one warms up
    double slowest_ms = 0;
    for (int i = 0; i < count && rc == 0; i++)
      rc = launch(gpus, i);
    for (int i = 0; i < count && rc == 0; i++) {
      float ms;
      TRY(cudaEventSynchronize(gpus[i].end)); // this wait ends, since stores wait for no other GPU
      TRY(cudaEventElapsedTime(&ms, gpus[i].begin, gpus[i].end));
      slowest_ms = std::max(slowest_ms, (double)ms);
    }
    if (rc == 0)
      *rate = (double)REPEATS * BYTES / slowest_ms / 1e6;
  }
  return rc; // the process ends after this, which releases everything
}
