// What the kernels are launched with. Pointers are to device memory; shapes as in weft/ep.h.
#ifndef CUDA_KERNELS_ARGS_H
#define CUDA_KERNELS_ARGS_H

#include <stdbool.h>

#include "cuda/kernels/state.h"

struct cuda_dispatch_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t capacity;
  uint32_t members;       // the most that a view has during this launch: it sizes shared memory
  bool usual;             // cuda_is_usual()
  bool strided;           // scales have strides of the caller's
  uint64_t expert_scales; // elements from where an expert's scales would begin without its stride to where they do
  struct device_dispatch d;
  uint64_t *trace; // [blocks][8] or NULL: see snapshot.cuh
};

// Whether a dispatch says nothing for itself that most callers do not say. There are kernels for these, without the
// instructions for the rest: even where they did not run, they cost 0.4 us of a pair of one token, and 0.7 of 128.
static inline bool cuda_is_usual(const struct cuda_dispatch_args *args) {
  const struct device_dispatch *d = &args->d;
  return !d->narrow && !d->keep_places && !d->num_tokens_at && !d->told && !d->lost;
}

// Completes the arguments: strides that are 0 become those of what stands one behind the other.
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
  bool usual;         // kernels/usual.cuh: the operation is combined once, and its indices are int64_t
  bool by_call;       // it is this call that has answers travel as logfmt10, and not the group
  bool before_hopper; // the kernels that are loaded are made for devices before Hopper: see cuda_launch_load()
  struct device_combine c;
  uint64_t *trace;
};

struct cuda_finish_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t ahead; // of the oldest operation that is open
};

struct cuda_masks_args {
  const struct cuda_state *state;
  int32_t *ranks;
  uint32_t count;
  uint64_t masked; // seats; not where it replays
  bool replays;
};

// `in`, `out`: as in struct cuda_member, of the peers. Begins with operation `op` in the published view of `epoch`;
// `op` is CUDA_AWAIT: waits for `timeout_ns` at most until one of the areas in[0..count) names it, or has another word
// in `awaits` than `known`.
#define CUDA_AWAIT UINT64_MAX
struct cuda_begin {
  uint64_t op, epoch;
  uint64_t begun;                    // 1: it has
  uint64_t awaits[CUDA_MAX_MEMBERS]; // else: that of in[0..count)
};
struct cuda_begin_args {
  struct cuda_state *state;
  uint64_t op, epoch, timeout_ns;
  uint32_t count;
  const char *in[CUDA_MAX_MEMBERS], *out[CUDA_MAX_MEMBERS];
  uint64_t area;   // bytes of each
  uint64_t awaits; // for out[0..count), while it waits
  uint64_t known[CUDA_MAX_MEMBERS];
  uint64_t takes;            // bit i: a start that stands in in[i] counts
  struct cuda_begin *result; // host memory; `epoch` 0: no peer has published a start
};

#endif
