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

static const void *kernel_of(uint32_t halves, bool bf16, bool scales, bool usual) {
  return usual ? cuda_usual_dispatch(halves, bf16, scales) : cuda_any_dispatch(halves, bf16, scales);
}

int cuda_load_dispatch(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++)
    for (bool usual : {false, true}) {
      const void *const kernels[] = {kernel_of(halves, true, false, usual), kernel_of(halves, false, true, usual),
                                     kernel_of(halves, false, false, usual)};
      for (const void *kernel : kernels)
        if (rc == cudaSuccess)
          rc = load(kernel, early);
    }
  return (int)rc;
}

int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  const void *kernel = kernel_of(args->d.halves, args->layout.dtype == CUDA_BF16, args->d.scales, args->usual);
  size_t memory = cuda_dispatch_memory(args);
  void *params[] = {(void *)args};
  return (int)launch(kernel, params, blocks, BLOCK, memory, early, stream);
}
