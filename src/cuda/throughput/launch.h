// The launchers of the kernels for many tokens. They return a cudaError_t. `blocks`: processors to use; all blocks must
// be resident at once. `early`: as in cuda/kernels/launch.h.
#ifndef CUDA_THROUGHPUT_LAUNCH_H
#define CUDA_THROUGHPUT_LAUNCH_H

#include <cuda_runtime_api.h>

#include "cuda/throughput/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fills the sender's half of a route. Its blocks wait for each other.
int cuda_launch_plan(const struct cuda_plan_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Moves the rows of a dispatch; fills the receiver's half of its route, unless that is kept.
int cuda_launch_rows(const struct cuda_rows_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Moves the answers of a combine, and adds them.
int cuda_launch_answers(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Loads these kernels on the current device, as cuda_launch_load does.
int cuda_load_throughput(bool *early);

// Bytes of workspace, zeroed once, for up to `blocks` processors.
size_t cuda_plan_workspace(const struct cuda_flow *flow, uint32_t blocks);
size_t cuda_rows_workspace(const struct cuda_flow *flow, uint32_t blocks, uint32_t max_rows);

#ifdef __cplusplus
}
#endif
#endif
