// For the host: values that depend on a number alone, conversions of bf16, and work on all processors.
#ifndef TESTS_CUDA_FLOW_VALUES_CUH
#define TESTS_CUDA_FLOW_VALUES_CUH

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

static inline uint64_t mix(uint64_t v) {
  v += 0x9E3779B97F4A7C15ull;
  v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9ull;
  v = (v ^ v >> 27) * 0x94D049BB133111EBull;
  return v ^ v >> 31;
}
static inline float unit_of(uint64_t v) {
  return (float)(v >> 40) / (float)(1 << 24);
}
static inline float from_bf16(uint16_t v) {
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static inline uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return 0x7FFF;
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline void in_parallel(size_t count, const std::function<void(size_t)> &work) {
  size_t threads = std::max(1u, std::min(32u, std::thread::hardware_concurrency()));
  std::vector<std::thread> all;
  for (size_t t = 0; t < threads; t++)
    all.emplace_back([=, &work] {
      for (size_t i = t; i < count; i += threads)
        work(i);
    });
  for (std::thread &thread : all)
    thread.join();
}

#endif
