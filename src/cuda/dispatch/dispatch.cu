// Launches dispatch.
#include "cuda/dispatch/kernels.h"
#include "cuda/dispatch/outgoing.cuh"
#include "cuda/dispatch/receive_headers.cuh"
#include "cuda/dispatch/roles.cuh"
#include "cuda/kernels/launch.h"

size_t cuda_dispatch_memory(const struct cuda_dispatch_args *args) {
  size_t senders = args->d.halves & DEVICE_SEND ? SENDERS : 0;
  return senders * STAGE + (args->d.halves & DEVICE_SEND ? outgoing_size(*args) : 0) +
         (args->d.halves & DEVICE_RECV ? places_size(*args) : 0);
}

int cuda_load_dispatch(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++) {
    const void *const kernels[] = {
        cuda_usual_dispatch(halves, true, false),  cuda_any_dispatch(halves, true, false),
        cuda_usual_dispatch(halves, false, true),  cuda_any_dispatch(halves, false, true),
        cuda_usual_dispatch(halves, false, false), cuda_any_dispatch(halves, false, false),
        cuda_strided_dispatch(halves, true),       cuda_strided_dispatch(halves, false),
    };
    for (const void *kernel : kernels)
      if (rc == cudaSuccess)
        rc = load(kernel, early);
  }
  return (int)rc;
}

int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  uint32_t halves = args->d.halves;
  bool bf16 = args->layout.dtype == CUDA_BF16, scales = args->d.scales;
  const void *kernel = !args->usual             ? cuda_any_dispatch(halves, bf16, scales)
                       : args->strided && !bf16 ? cuda_strided_dispatch(halves, scales)
                                                : cuda_usual_dispatch(halves, bf16, scales);
  size_t memory = cuda_dispatch_memory(args);
  void *params[] = {(void *)args};
  return (int)launch(kernel, params, blocks, BLOCK, memory, early, stream);
}
