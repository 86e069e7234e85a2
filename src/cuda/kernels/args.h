// The arguments of the kernels. Pointers are to device memory; shapes as in weft/ep.h.
#ifndef CUDA_KERNELS_ARGS_H
#define CUDA_KERNELS_ARGS_H

#include <stdbool.h>

#include "cuda/kernels/state.h"

struct cuda_dispatch_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t capacity;
  uint32_t members; // most members of a view during this launch; determines the size of shared memory
  bool usual;       // cuda_is_usual()
  bool strided;     // the caller gives strides of the scales
  // offset of an expert's scales from the place that they would have without an expert stride, in elements
  uint64_t expert_scales;
  struct device_dispatch d;
  uint64_t *trace; // [blocks][8] or NULL: see snapshot.cuh
};

// Whether a dispatch uses only the options that most callers use. Special kernels for these calls lack the instructions
// for all other options. Such instructions cost time even if they do not run: 0.4 us for a pair of dispatch and combine
// of one token, and 0.7 us for 128 tokens.
static inline bool cuda_is_usual(const struct cuda_dispatch_args *args) {
  const struct device_dispatch *d = &args->d;
  return !d->narrow && !d->keep_places && !d->num_tokens_at && !d->status && !d->lost;
}

// Completes the arguments: strides that are 0 get their values for data without gaps.
static inline void cuda_complete(struct cuda_dispatch_args *args) {
  const struct cuda_layout *layout = &args->layout;
  struct device_dispatch *d = &args->d;
  uint32_t scales = layout->scale_bytes / 4; // elements of a row
  bool casts = layout->dtype != CUDA_BF16 && !d->scales;
  d->row_stride = d->row_stride ? d->row_stride : layout->value_bytes << casts;
  d->scale_row_stride = d->scale_row_stride ? d->scale_row_stride : scales;
  d->scale_block_stride = d->scale_block_stride ? d->scale_block_stride : 1;
  d->out_scale_row_stride = d->out_scale_row_stride ? d->out_scale_row_stride : scales;
  d->out_scale_block_stride = d->out_scale_block_stride ? d->out_scale_block_stride : 1;
  args->strided = d->scale_row_stride != scales || d->scale_block_stride != 1 || d->out_scale_row_stride != scales ||
                  d->out_scale_block_stride != 1 || d->out_scale_expert_stride != 0;
  uint64_t part = d->out_scale_expert_stride ? d->out_scale_expert_stride : (uint64_t)d->rows * scales;
  args->expert_scales = d->rank_major ? 0 : part - (uint64_t)d->rows * d->out_scale_row_stride;
  args->usual = cuda_is_usual(args);
}

struct cuda_combine_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  bool usual;         // see kernels/usual.cuh: the operation has one combine, and its indices are int64_t
  bool by_call;       // this call asks for logfmt10 answers, not the group
  bool before_hopper; // the loaded kernels are code for devices before Hopper: see cuda_launch_load()
  struct device_combine c;
  uint64_t *trace;
};

struct cuda_finish_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t ahead; // see device_combine.ahead
};

struct cuda_masks_args {
  const struct cuda_state *state;
  int32_t *ranks;
  uint32_t count;
  uint64_t masked; // mask of seats; not used if `replays`
  bool replays;
};

// `in`, `out`: the peers' areas, as in struct cuda_member. The kernel begins with operation `op` in the published view
// of `epoch`. If `op` is CUDA_AWAIT, it waits for at most `timeout_ns` until one of the areas in[0..count) names the
// first operation, or until a word in `awaits` differs from `known`.
#define CUDA_AWAIT UINT64_MAX
struct cuda_begin {
  uint64_t op, epoch;
  uint64_t begun;                    // 1: the rank has begun
  uint64_t awaits[CUDA_MAX_MEMBERS]; // otherwise: the words `awaits` of in[0..count)
};
struct cuda_begin_args {
  struct cuda_state *state;
  uint64_t op, epoch, timeout_ns;
  uint32_t count;
  const char *in[CUDA_MAX_MEMBERS], *out[CUDA_MAX_MEMBERS];
  uint64_t area;   // bytes of each area
  uint64_t awaits; // word to write to out[0..count) while the kernel waits
  uint64_t known[CUDA_MAX_MEMBERS];
  uint64_t takes;            // bit i: a start in in[i] is accepted
  struct cuda_begin *result; // in host memory; `epoch` 0: no peer has published a start
};

#endif
