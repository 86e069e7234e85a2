// Functions that return a cudaError_t as an int.
#ifndef BENCH_TRY_CUH
#define BENCH_TRY_CUH

#include <cuda_runtime.h>

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    cudaError_t rc_ = (call);                                                                                          \
    if (rc_ != cudaSuccess)                                                                                            \
      return (int)rc_;                                                                                                 \
  } while (0)

#endif
