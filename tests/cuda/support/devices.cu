// The GPUs of one process, for tests and benchmarks of the kernels.
#include "cuda/support/devices.cuh"

int device_count(void) {
  int count;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void open_peers(int device, int devices) {
  OK(cudaSetDevice(device));
  for (int peer = 0; peer < devices; peer++) {
    cudaError_t rc = peer == device ? cudaSuccess : cudaDeviceEnablePeerAccess(peer, 0);
    if (rc != cudaErrorPeerAccessAlreadyEnabled)
      OK(rc);
    cudaGetLastError();
  }
}

float elapsed_us(cudaEvent_t begin, cudaEvent_t end) {
  float ms;
  OK(cudaEventElapsedTime(&ms, begin, end));
  return ms * 1e3f;
}
