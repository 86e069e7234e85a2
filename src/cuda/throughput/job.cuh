// A job: what a warp has to do with one row.
#ifndef CUDA_THROUGHPUT_JOB_CUH
#define CUDA_THROUGHPUT_JOB_CUH

#include "cuda/kernels/packet.cuh"
#include "cuda/throughput/op.h"

enum {
  MOVER_LINE = WARP * 16,           // bytes: 16 for each lane
  MOVER_INPUTS = CUDA_MAX_TOPK + 2, // ranks or experts, and biases
  MOVER_OUTPUTS = CUDA_MAX_TOPK,
};

// In shared memory.
struct mover_job {
  const char *input[MOVER_INPUTS];
  float weight[MOVER_INPUTS];
  uint32_t inputs, outputs;
  float factor;
  uint32_t factor_at;     // after so many inputs the sum is multiplied by `factor`; 0: never
  uint32_t source, token; // seat or 0; token, or number of the row in its channel
  uint64_t seats;         // seats that the job concerns
  char *output[MOVER_OUTPUTS];
  uint64_t scales_at[MOVER_OUTPUTS]; // place of an output's scales, in elements; or an address
};

// The packets of a job that one warp handles.
struct mover_share {
  uint32_t first, step;
};

#endif
