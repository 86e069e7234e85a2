// The GPUs of one process, for tests and benchmarks of the kernels. An error of CUDA prints a message and ends the
// process.
#ifndef TESTS_CUDA_DEVICES_CUH
#define TESTS_CUDA_DEVICES_CUH

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t rc_ = (cudaError_t)(call);                                                                             \
    if (rc_ != cudaSuccess) {                                                                                          \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(rc_));                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

// The number of devices; 0 without a driver.
int device_count(void);
// Makes the device current, and lets it access the memory of devices 0 to `devices` - 1.
void open_peers(int device, int devices);
float elapsed_us(cudaEvent_t begin, cudaEvent_t end);

// Calls `work` for each rank of `all` in a separate thread, with the rank's device current.
template <typename R, typename W> void at_once(std::vector<R> &all, const W &work) {
  std::vector<std::thread> threads;
  for (R &r : all)
    threads.emplace_back([&] {
      OK(cudaSetDevice(r.device));
      work(r);
    });
  for (std::thread &thread : threads)
    thread.join();
}

template <typename T> T *device_alloc(size_t count) {
  void *p;
  OK(cudaMalloc(&p, std::max<size_t>(count * sizeof(T), 16)));
  OK(cudaMemset(p, 0, std::max<size_t>(count * sizeof(T), 16)));
  return (T *)p;
}

template <typename T> std::vector<T> fetch(const T *p, size_t count) {
  std::vector<T> v(count);
  OK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}

#endif
