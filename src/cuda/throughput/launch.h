// The launchers of the throughput kernels. They return a cudaError_t. `blocks`: processors to use; all blocks must be
// resident at once. `early`: as in cuda/kernels/launch.h.
#ifndef CUDA_THROUGHPUT_LAUNCH_H
#define CUDA_THROUGHPUT_LAUNCH_H

#include <cuda_runtime_api.h>

#include "cuda/control/control.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fills the sender's half of a route. Its blocks wait for each other.
int cuda_launch_plan(const struct cuda_plan_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Moves the rows of a dispatch; fills the receiver's half of its route, unless that is kept.
int cuda_launch_rows(const struct cuda_rows_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Moves the answers of a combine and adds them up.
int cuda_launch_answers(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// The same with one warp for each channel, for RANK_MAJOR rows that are not encoded. cuda_launch_answers() calls it if
// there are few processors, or if answers may be read in place.
int cuda_launch_by_rank(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Loads these kernels on the current device, as cuda_launch_load does.
int cuda_load_throughput(bool *early);
int cuda_load_plan(bool *early); // a part of cuda_load_throughput()
int cuda_load_rows(bool *early);
int cuda_load_by_rank(bool *early);

// Control, which uses one block; the notification after the rows; and the end of an operation after its answers.
int cuda_launch_control(const struct cuda_control_args *args, bool early, cudaStream_t stream);
int cuda_launch_notify(const struct cuda_notify_args *args, bool early, cudaStream_t stream);
int cuda_launch_end(const struct cuda_end_args *args, bool early, cudaStream_t stream);
// After rows that fill a route: its lists, and the notification. After a plan alone: the lists of what will be sent.
int cuda_launch_lists(const struct cuda_lists_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// After all kernels that fill the route: finds where a call's selections differ from those of the route.
int cuda_launch_compare(const struct cuda_compare_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Shared memory, in bytes, that control needs for views of `members`.
size_t cuda_control_memory(const struct cuda_layout *layout, uint32_t members);
// The least shared memory that a plan needs.
size_t cuda_plan_memory(uint32_t experts, uint32_t members);

// Bytes of workspace, zeroed once, for up to `blocks` processors.
size_t cuda_plan_workspace(const struct cuda_flow *flow, uint32_t blocks);
size_t cuda_rows_workspace(const struct cuda_flow *flow, uint32_t blocks, uint32_t max_rows);

#ifdef __cplusplus
}
#endif
#endif
