// Control of operations of many tokens: what its kernels are launched with, and how a header says what the kernels for
// low latency have no place for.
//
// Control is an operation of those kernels without rows, in areas whose slots are headers only: a layout for 0 tokens.
// Its "counts" are the fields below, two of them for each 32-bit number.
#ifndef CUDA_CONTROL_CONTROL_H
#define CUDA_CONTROL_CONTROL_H

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "cuda/kernels/args.h"
#include "cuda/throughput/op.h"

// Behind the selections of each of the E local experts of the receiver:
enum {
  CUDA_FIELD_ROWS,  // tokens that go to the receiver
  CUDA_FIELD_ROUTE, // the low half of the number, + 1, of the operation that filled the route; 0: none is kept
  CUDA_FIELD_FORM,  // of the sender's rows; 0: the header is of no dispatch
  CUDA_FIELDS,
};

enum { CUDA_FORM_UNIT = 16 }; // of a row's values, which are less than 256 KiB

// The form of rows, which all ranks of an operation have alike: their type, top-k, bytes of values, and words of
// scales.
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

// Where a window's stream (flow.h) begins, behind its area.
static inline uint64_t cuda_stream_offset(const struct cuda_layout *control) {
  return (control->area + CUDA_STREAM_PAGE - 1) / CUDA_STREAM_PAGE * CUDA_STREAM_PAGE;
}

// What a route knows of the operation that filled it. In device memory.
struct cuda_filled {
  uint64_t op, epoch; // op + 1; 0: none has
  uint64_t lost;      // members of its view, by index, whose tokens did not come
  uint32_t num_rows, packed_rows, num_ranks;
  uint32_t rank_end[DEVICE_SEATS]; // received pairs of the ranks up to this one, ascending by rank
  int32_t rank[DEVICE_SEATS];      // those ranks
  uint32_t totals[EP_MAX_EXPERTS]; // selections of each local expert
  // As in struct cuda_flow_op, for operations that go by the route: places are those of the filling, whoever has left.
  uint64_t seats;
  uint32_t count;
  uint8_t by_rank[DEVICE_SEATS];
  int32_t seat_rank[DEVICE_SEATS];
  uint32_t rows[DEVICE_SEATS];
  uint32_t *counts; // [DEVICE_SEATS][E]; set once
};

struct cuda_control_args {
  struct cuda_dispatch_args base; // its layout is control's. Used: halves, kind, replays, masked, wait_ns, told, lost
  const struct cuda_route *route;
  struct cuda_flow_op *op;
  uint32_t *counts; // op->counts
  uint64_t stream;  // cuda_stream_offset()
  uint32_t experts, form;
  uint32_t max_tokens, topk; // of a rank's, at most
  struct cuda_divisor by_experts;
  bool overlaps;              // it was launched early, right behind the plan, and waits for the plan's counts alone
  bool keeps;                 // the route was filled before, by `filled`
  bool no_rows;               // a combine by a kept route, or a barrier: none travel
  struct cuda_filled *filled; // NULL: nobody keeps the route
  int layout;                 // enum weft_ep_layout
  uint32_t alignment;         // PACKED
  uint32_t filled_alignment;  // of the route, for filled->packed_rows
};

// What a route's owner reads: struct weft_ep_route_arrays, in device memory.
struct cuda_route_lists {
  int32_t *tokens_per_rank;      // [capacity]
  int32_t *tokens_per_expert;    // [capacity * E]
  uint8_t *in_rank;              // [T][capacity]
  int32_t *rank_end;             // [capacity]
  int32_t *expert_end;           // [E]
  int32_t *src_rank, *src_token; // [S]
  int32_t *slot;                 // [S][K]
};

// Compares the selections of a call with those that a route knows.
struct cuda_compare_args {
  const struct cuda_route *route; // sums[0]: its tokens, of which the host may know no more than the most there can be
  const void *given, *kept;       // [num_tokens][topk]
  bool narrow, kept_narrow;       // of int32_t, else of int64_t
  uint32_t num_tokens, topk;
  uint64_t *first; // all ones before; becomes the index of the first that differs, if one does
};

// Behind the rows of a dispatch: notifies the caller's kernels and threads of what it brought (struct weft_ep_told).
struct cuda_notify_args {
  struct cuda_dispatch_args base;
  const struct cuda_flow_op *op;
  struct cuda_filled *filled; // NULL: nobody keeps the route
};

// Behind all of a dispatch that fills a route, or behind a plan alone: writes the lists, and keeps the selections.
struct cuda_lists_args {
  struct cuda_state *state;
  const struct cuda_route *route;
  struct cuda_route_lists lists;
  uint32_t capacity, experts, topk, alignment, max_rows;
  uint32_t halves; // DEVICE_SEND: of what is sent; DEVICE_RECV: of what has come, with the notification
  // What is sent. `kept_idx` and `kept_weights` are the route's.
  const void *topk_idx;
  const float *topk_weights; // NULL: there are none
  void *kept_idx;
  float *kept_weights;
  bool narrow;
  // What has come, of which notify.filled knows. notify.op NULL: a plan alone, and the view is that of the next
  // dispatch.
  struct cuda_notify_args notify;
  int layout;                  // of the receive, enum weft_ep_layout
  uint32_t rows;               // of its buffer
  uint32_t received_alignment; // PACKED
};

// The control of a combine, behind its answers.
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
