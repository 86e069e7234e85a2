// What the kernels are launched with. Pointers are to device memory; shapes as in weft/ep.h.
#ifndef CUDA_KERNELS_ARGS_H
#define CUDA_KERNELS_ARGS_H

#include "cuda/kernels/state.h"

struct cuda_dispatch_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  uint32_t capacity;
  uint32_t members; // the most that a view has during this launch: it sizes shared memory
  int dtype;
  struct device_dispatch d;
  uint64_t *trace; // [blocks][8] or NULL: see snapshot.cuh
};

struct cuda_combine_args {
  struct cuda_state *state;
  struct cuda_layout layout;
  struct device_combine c;
  uint64_t *trace;
};

struct cuda_finish_args {
  struct cuda_state *state;
  struct cuda_layout layout;
};

// `in`, `out`: as in struct cuda_member, of the peers. Begins with operation `op` in the published view of `epoch`;
// `op` is CUDA_AWAIT: waits for `timeout_ns` at most until one of the areas in[0..count) names it.
#define CUDA_AWAIT UINT64_MAX
struct cuda_begin {
  uint64_t op, epoch;
  uint64_t begun; // 1: it has
};
struct cuda_begin_args {
  struct cuda_state *state;
  uint64_t op, epoch, timeout_ns;
  uint32_t count;
  const char *in[CUDA_MAX_MEMBERS], *out[CUDA_MAX_MEMBERS];
  uint64_t area;             // bytes of each
  struct cuda_begin *result; // host memory; `epoch` 0: no peer has published a start
};

#endif
