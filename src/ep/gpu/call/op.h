// An operation on the host, from the launch that begins it to the one that ends it.
#ifndef EP_GPU_CALL_OP_H
#define EP_GPU_CALL_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/gpu/call/call.h"

// Whether a capture has begun it. Then its number is none of those of operations, which it gets when it replays.
static inline bool ep_gpu_op_captured(const struct gpu_op *op) {
  return op->number & GPU_CAPTURED;
}

// Whether another operation is open where `op` is. What other captures have left open is none of it: they may have been
// given up.
static inline bool ep_gpu_open_beside(const struct gpu_op *op, const struct gpu_op *other) {
  return other != op && other->state != EP_OP_FREE && other->capture == op->capture;
}

// --- op.c ---

// The operation of that number, which has to have come so far. INVALID.
int ep_gpu_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct gpu_op **out);
// Checks what can be checked before an operation begins, and finds its place. `results`: the call wants some.
int ep_gpu_op_prepare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool results, struct gpu_op **out);
// It has not begun after all, because of `rc`, which is returned: nothing of it is left that the next one in its place
// would let go of.
int ep_gpu_op_forget(struct gpu_op *op, int rc);
// Operations end in their order. One that another before it is open beside can be combined all the same, if it `keeps`,
// and stay open until that has ended. *ahead: how many are before it. INVALID.
int ep_gpu_op_check_order(const weft_ep_t *ep, const struct gpu_op *op, bool keeps, const char *call, uint32_t *ahead);
// Launches its end.
int ep_gpu_op_end(weft_ep_t *ep, struct gpu_op *op, void *stream, const char *call);
// A barrier whose end could not be launched has it before the next operation, which the device would take it for.
// BUSY: the stream is captured.
int ep_gpu_op_end_barrier(weft_ep_t *ep, void *stream, uint64_t capture, const char *call);
// What a launch did: it went into the stream; it has begun, received or ended the operation.
void ep_gpu_op_launched(weft_ep_t *ep, struct gpu_op *op, void *stream);
void ep_gpu_op_begun(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_op_received(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_op_ended(weft_ep_t *ep, struct gpu_op *op);

// --- capture.c ---

// *capture: which one the stream is in; 0: none, what is launched there runs.
int ep_gpu_find_capture(weft_ep_t *ep, void *stream, const char *call, uint64_t *capture);
// Whether a capture has begun the operation, and what is launched into the stream would run: it would end another
// operation, or one that there is not.
int ep_gpu_op_outside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call, bool *outside);
// The reverse, INVALID: the host would count it as ended, and the device would not.
int ep_gpu_op_check_runs(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call);
// Both.
int ep_gpu_op_check_inside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call);
// What is captured does not run, so there is nothing to report. INVALID.
int ep_gpu_check_results(bool captures, bool results, const char *call);

// --- dispatch.c ---

// Whom the launch sends no tokens.
void ep_gpu_describe_masks(weft_ep_t *ep, const struct gpu_op *op, struct device_dispatch *out);
// Launches the dispatch, or the halves of it that `args` names; `recv` may be NULL.
int ep_gpu_op_launch_dispatch(weft_ep_t *ep, struct gpu_op *op, const struct device_dispatch *args,
                              const struct weft_ep_recv_args *recv, void *stream, const char *call);

#endif
