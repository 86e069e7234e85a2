// GPU functions that benchmarks use besides operations.
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The number of GPUs that this process may use; 0 if there is no driver, and in a build without CUDA.
int bench_count_gpus(void);
// Keeps a stream busy for `us`, so that the following work is launched before it runs. 0 or a cudaError_t.
int bench_spin(uint32_t us, void *stream);

#ifdef __cplusplus
}
#endif
#endif
