// The kernels' launchers. They return a cudaError_t.
#ifndef CUDA_KERNELS_LAUNCH_H
#define CUDA_KERNELS_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "cuda/kernels/args.h"

#ifdef __cplusplus
extern "C" {
#endif

// `blocks`: processors to use; all blocks must be resident at once, with those of the other ranks on this device.
// `early`: blocks are placed while the previous kernel of the stream ends. Only a rank that has the device to itself
// may do so; otherwise these blocks could take the processors of a kernel for which a rank waits.
int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t blocks, bool early, cudaStream_t stream);
int cuda_launch_combine(const struct cuda_combine_args *args, uint32_t blocks, bool early, cudaStream_t stream);
// Makes room for a further combine of an operation. `blocks`: maximum.
int cuda_launch_reopen(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream);
int cuda_launch_masks(const struct cuda_masks_args *args, cudaStream_t stream);
// Ends the oldest received operation that has not ended, without a combine. `blocks`: maximum.
int cuda_launch_finish(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream);
int cuda_launch_begin(const struct cuda_begin_args *args, cudaStream_t stream);
// Wakes the links to the peers whose areas are out[0..count).
int cuda_launch_wake_links(const struct cuda_begin_args *args, cudaStream_t stream);
// Loads every kernel of this header on the current device. To be called before the first of them runs there: CUDA loads
// a kernel at its first launch, which may wait for running kernels, and these may wait for it. *early: whether kernels
// can be launched early. Code made for devices before Hopper, which may run on later devices, cannot: it does not wait
// for the previous kernel.
int cuda_launch_load(bool *early);
int cuda_load_dispatch(bool *early); // parts of cuda_launch_load(), which may clear *early
int cuda_load_combine(bool *early);
int cuda_load_throughput(bool *early); // throughput/: the kernels that move rows
int cuda_load_control(bool *early);    // control/: the kernels around them
int cuda_load_lists(bool *early);
int cuda_load_compare(bool *early);
// Shared memory, in bytes, that a dispatch needs in addition to the kernel's static shared memory (at most
// CUDA_DISPATCH_FIXED).
enum { CUDA_DISPATCH_FIXED = 24 * 1024 };
size_t cuda_dispatch_memory(const struct cuda_dispatch_args *args);
// Maximum shared memory, in bytes, that a combine needs. `before_hopper`: as in its arguments.
size_t cuda_combine_memory(bool before_hopper);

#ifdef __cplusplus
}

// Allows the kernel to use all shared memory of the device. A limit set at each launch to the size that this launch
// needs could make a launch of another thread fail that needs more. Clears *early, if given, for code in which
// await_previous() (ptx.cuh) does nothing.
inline cudaError_t load(const void *kernel, bool *early = nullptr) {
  cudaFuncAttributes attributes;
  int device, limit;
  cudaError_t rc = cudaFuncGetAttributes(&attributes, kernel);
  if (rc == cudaSuccess)
    rc = cudaGetDevice(&device);
  if (rc == cudaSuccess)
    rc = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (rc == cudaSuccess)
    rc = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              limit - (int)attributes.sharedSizeBytes);
  if (early && rc == cudaSuccess)
    *early &= attributes.ptxVersion >= 90;
  return rc;
}

inline cudaError_t launch(const void *kernel, void **params, uint32_t blocks, uint32_t threads, size_t memory,
                          bool early, cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = early;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = memory;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelExC(&config, kernel, params);
}
#endif
#endif
