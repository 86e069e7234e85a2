// What the kernels are launched with.
#ifndef CUDA_ARGS_H
#define CUDA_ARGS_H

#include "cuda/state.h"

enum { CUDA_SEND = 1, CUDA_RECV = 2 }; // halves of an operation's dispatch or combine, to be run by one kernel

// Pointers as in weft/ep.h, to device memory.
struct cuda_dispatch_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t experts_per_rank, capacity, halves;
  int dtype;
  // send
  const void *x;
  const int64_t *topk_idx;
  const float *topk_weights;
  uint32_t num_tokens;
  // receive
  uint32_t rank_major, rows;
  void *out;
  float *scales;
  int32_t *counts, *src_rank, *src_token;
  int64_t *range;
  int32_t *local_expert;
  float *weights;
  uint64_t *trace; // [blocks][8] or NULL: see scene.cuh
};

struct cuda_combine_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t experts_per_rank, halves;
  uint32_t rank_major;
  const void *y;
  void *out;
  uint32_t num_tokens;
  const int64_t *topk_idx; // for renormalize
  const float *topk_weights;
  uint32_t renormalize;
  uint64_t *missing; // [T], may be NULL: members that brought nothing for the token, by bit
  uint64_t *trace;   // [blocks][8] or NULL: see scene.cuh
};

#endif
