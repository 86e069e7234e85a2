// Launches combine: the experts' rank reduces its rows for a token to one row and returns it; the source adds the rows
// of the ranks.
#include "cuda/combine/kernels.cuh"
#include "cuda/kernels/launch.h"

enum { COMBINE_FIXED = 15 * 1024 }; // most bytes of static shared memory of the kernels

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

static size_t memory_of(uint32_t halves, bool coded, bool before_hopper) {
  bool adds = halves & DEVICE_RECV;
  return (size_t)answerers_of(halves & DEVICE_SEND, adds) * combine_room(before_hopper, adds, coded).answerer() +
         (coded ? (size_t)COMBINE_WARPS * CODED_ROOM : 0);
}

size_t cuda_combine_memory(bool before_hopper) {
  size_t most = 0;
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++)
    for (bool coded : {false, true}) {
      size_t memory = memory_of(halves, coded, before_hopper);
      most = memory > most ? memory : most;
    }
  return most + COMBINE_FIXED;
}

int cuda_launch_combine(const struct cuda_combine_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  uint32_t halves = args->c.halves;
  bool coded = args->layout.coded, late = args->c.late_weights && halves & DEVICE_SEND;
  const void *kernel = !args->usual ? cuda_any_combine(halves, coded)
                       : late       ? cuda_late_combine(halves, coded)
                                    : cuda_usual_combine(halves, coded);
  void *params[] = {(void *)args};
  return (int)launch(kernel, params, blocks, COMBINE_BLOCK, memory_of(halves, coded, args->before_hopper), early,
                     stream);
}
