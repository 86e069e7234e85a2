// Control of throughput operations: the arguments of its kernels, and the additional fields of its headers, for which
// low-latency headers have no place.
//
// Control is an operation of the low-latency kernels without rows. The slots of its areas contain headers only: a
// layout for 0 tokens. Its "counts" are the fields below; each 32-bit number takes two of them.
#ifndef CUDA_CONTROL_CONTROL_H
#define CUDA_CONTROL_CONTROL_H

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "cuda/kernels/args.h"
#include "cuda/throughput/op.h"

// Fields after the selections of each of the E local experts of the receiver:
enum {
  CUDA_FIELD_ROWS,  // number of tokens for the receiver
  CUDA_FIELD_ROUTE, // low half of (number + 1) of the operation that filled the route; 0: no kept route
  CUDA_FIELD_FORM,  // form of the sender's rows; 0: the header does not belong to a dispatch
  CUDA_FIELDS,
};

enum { CUDA_FORM_UNIT = 16 }; // unit for the bytes of a row's values, which are less than 256 KiB

// The form of rows, which is the same for all ranks of an operation: type, top-k, bytes of values, and words of scales.
CUDA_SHARED uint32_t cuda_flow_form(uint32_t dtype, uint32_t topk, uint32_t value_bytes, uint32_t scale_words) {
  return 1u << 31 | (dtype & 7) << 28 | (topk & 0x1F) << 23 | (scale_words & 0xFF) << 14 |
         (value_bytes / CUDA_FORM_UNIT & 0x3FFF);
}
// The parts of a form.
CUDA_SHARED uint32_t cuda_form_topk(uint32_t form) {
  return form >> 23 & 0x1F;
}
CUDA_SHARED uint32_t cuda_form_bytes(uint32_t form) {
  return (form & 0x3FFF) * CUDA_FORM_UNIT + (form >> 14 & 0xFF) * 4;
}

static inline void cuda_control_layout(struct cuda_layout *layout, struct cuda_forms *forms, uint32_t experts) {
  cuda_layout_init(layout, forms, 0, CUDA_BLOCK, 1, 2 * (experts + CUDA_FIELDS), CUDA_BF16, CUDA_COMBINE_BF16);
}

// The offset of a window's stream (flow.h), which follows the area.
static inline uint64_t cuda_stream_offset(const struct cuda_layout *control) {
  return (control->area + CUDA_STREAM_PAGE - 1) / CUDA_STREAM_PAGE * CUDA_STREAM_PAGE;
}

// The data in a route about the operation that filled it. In device memory.
struct cuda_filled {
  uint64_t op, epoch; // number + 1 of the operation; 0: no operation has filled the route
  uint64_t lost;      // members of its view, by index, whose tokens did not arrive
  uint32_t num_rows, packed_rows, num_ranks;
  // number of pairs received from the ranks up to and including this one, ascending by rank
  uint32_t rank_end[DEVICE_SEATS];
  int32_t rank[DEVICE_SEATS];      // the ranks of rank_end
  uint32_t totals[EP_MAX_EXPERTS]; // selections of each local expert
  // As in struct cuda_flow_op, for operations that use the route: they keep the places of the filling, even if ranks
  // have left.
  uint64_t seats;
  uint32_t count;
  uint8_t by_rank[DEVICE_SEATS];
  int32_t seat_rank[DEVICE_SEATS];
  uint32_t rows[DEVICE_SEATS];
  uint32_t *counts; // [DEVICE_SEATS][E]; set once
};

struct cuda_control_args {
  // with control's layout. Used members: halves, kind, replays, masked, wait_ns, status, lost
  struct cuda_dispatch_args base;
  const struct cuda_route *route;
  struct cuda_flow_op *op;
  uint32_t *counts; // op->counts
  uint64_t stream;  // cuda_stream_offset()
  uint32_t experts, form;
  uint32_t max_tokens, topk; // maximum for each rank
  struct cuda_divisor by_experts;
  bool overlaps;              // launched early, right after the plan: the kernel waits only for the plan's counts
  bool keeps;                 // the route was filled before, see `filled`
  bool no_rows;               // a combine with a kept route, or a barrier: no rows are sent
  struct cuda_filled *filled; // NULL: nobody keeps the route
  int layout;                 // enum weft_ep_layout
  uint32_t alignment;         // PACKED
  uint32_t filled_alignment;  // of the route, for filled->packed_rows
};

// The arrays that a route's owner reads: struct weft_ep_route_arrays, in device memory.
struct cuda_route_lists {
  int32_t *tokens_per_rank;      // [capacity]
  int32_t *tokens_per_expert;    // [capacity * E]
  uint8_t *in_rank;              // [T][capacity]
  int32_t *rank_end;             // [capacity]
  int32_t *expert_end;           // [E]
  int32_t *src_rank, *src_token; // [S]
  int32_t *slot;                 // [S][K]
};

// Compares the selections of a call with the selections of a route.
struct cuda_compare_args {
  const struct cuda_route *route; // sums[0]: its tokens; the host may know only their maximum
  const void *given, *kept;       // [num_tokens][topk]
  bool narrow, kept_narrow;       // the lists contain int32_t, else int64_t
  uint32_t num_tokens, topk;
  uint64_t *first; // all bits set before; becomes the index of the first selection that differs, if any
};

// After the rows of a dispatch: notifies the caller's kernels and threads of the result (struct weft_ep_recv_status).
struct cuda_notify_args {
  struct cuda_dispatch_args base;
  const struct cuda_flow_op *op;
  struct cuda_filled *filled; // NULL: nobody keeps the route
};

// After all kernels of a dispatch that fills a route, or after a plan alone: writes the lists, and keeps the
// selections.
struct cuda_lists_args {
  struct cuda_state *state;
  const struct cuda_route *route;
  struct cuda_route_lists lists;
  uint32_t capacity, experts, topk, alignment, max_rows;
  // DEVICE_SEND: lists of what is sent; DEVICE_RECV: lists of what was received, and the notification
  uint32_t halves;
  // For what is sent. `kept_idx` and `kept_weights` belong to the route.
  const void *topk_idx;
  const float *topk_weights; // NULL: there are none
  void *kept_idx;
  float *kept_weights;
  bool narrow;
  // For what was received, as described by notify.filled. notify.op NULL: there is only a plan, and the view is that of
  // the next dispatch.
  struct cuda_notify_args notify;
  int layout;                  // layout of the receive: enum weft_ep_layout
  uint32_t rows;               // of its buffer
  uint32_t received_alignment; // PACKED
};

// The control of a combine, after its answers.
struct cuda_end_args {
  struct cuda_state *state;
  struct cuda_layout layout; // control's
  const struct cuda_route *route;
  struct cuda_flow_op *op;
  const uint64_t *missing; // of the answers
  uint32_t halves, topk;   // topk: of the dispatch
  bool keeps;              // the operation stays open for another combine
  bool rank_major;
};

#endif
