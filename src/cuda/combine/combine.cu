// combine: the experts' rank reduces its rows for a token and returns one; the source adds the rows of the ranks. This
// launches it.
#include "cuda/combine/kernels.cuh"
#include "cuda/kernels/launch.h"

int cuda_load_combine(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++)
    for (bool coded : {false, true}) {
      const void *const kernels[] = {cuda_usual_combine(halves, coded), cuda_any_combine(halves, coded),
                                     halves & DEVICE_SEND ? cuda_late_combine(halves, coded) : nullptr};
      for (const void *kernel : kernels)
        if (rc == cudaSuccess && kernel)
          rc = load(kernel, early);
    }
  return (int)rc;
}

int cuda_launch_combine(const struct cuda_combine_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  uint32_t halves = args->c.halves;
  bool coded = args->layout.coded, late = args->c.late_weights && halves & DEVICE_SEND;
  const void *kernel = !args->usual ? cuda_any_combine(halves, coded)
                       : late       ? cuda_late_combine(halves, coded)
                                    : cuda_usual_combine(halves, coded);
  bool adds = halves & DEVICE_RECV;
  size_t memory =
      (size_t)answerers_of(halves & DEVICE_SEND, adds) * combine_room(args->before_hopper, adds, coded).answerer();
  memory += args->layout.coded ? (size_t)COMBINE_WARPS * CODED_ROOM : 0;
  void *params[] = {(void *)args};
  return (int)launch(kernel, params, blocks, COMBINE_BLOCK, memory, early, stream);
}
