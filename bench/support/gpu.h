// What benchmarks ask of GPUs besides operations.
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// GPUs that this process may use; 0 where there is no driver, and in a build without CUDA.
int bench_count_gpus(void);
// Keeps a stream busy for so long, so that what follows is launched before it runs. 0 or a cudaError_t.
int bench_spin(uint32_t us, void *stream);

#ifdef __cplusplus
}
#endif
#endif
