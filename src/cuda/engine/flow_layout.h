// The places of the parts of a window. They follow from the options of the group. This code uses no CUDA, since the
// relay and tests use it without CUDA.
#ifndef CUDA_ENGINE_FLOW_LAYOUT_H
#define CUDA_ENGINE_FLOW_LAYOUT_H

#include "cuda/control/control.h"

// The area: all of a window, or in a group for throughput that of control, with a stream behind it.
static inline void cuda_area_of(const struct device_ep_options *o, struct cuda_layout *layout,
                                struct cuda_forms *forms) {
  if (o->throughput)
    cuda_control_layout(layout, forms, o->experts_per_rank);
  else
    cuda_layout_init(layout, forms, o->max_tokens, o->hidden, o->topk, o->experts_per_rank, o->dtype, o->combine_dtype);
}

// The stream of a group for throughput, and its offset in a window. flow->bytes is 0 if window_bytes are too few.
static inline void cuda_flow_of(const struct device_ep_options *o, struct cuda_flow *flow, uint64_t *offset) {
  struct cuda_layout control;
  struct cuda_forms forms;
  uint32_t row_bytes = o->dtype == CUDA_BF16 ? 2 * o->hidden : o->hidden + o->hidden / CUDA_BLOCK * 4;
  cuda_control_layout(&control, &forms, o->experts_per_rank);
  *offset = cuda_stream_offset(&control);
  uint64_t room = o->window_bytes > *offset ? o->window_bytes - *offset : 0;
  cuda_flow_init(flow, room, o->max_tokens, o->hidden, o->topk, o->experts_per_rank, row_bytes);
}

#endif
