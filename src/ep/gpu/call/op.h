// The host's record of an operation, from the launch that begins it to the launch that ends it.
#ifndef EP_GPU_CALL_OP_H
#define EP_GPU_CALL_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/gpu/call/call.h"

// Whether a capture has begun the operation. Its number is then not that of an operation; it gets such numbers when it
// replays.
static inline bool ep_gpu_op_captured(const struct gpu_op *op) {
  return op->number & GPU_CAPTURED;
}

// Whether another operation of the same capture, or outside of captures like `op`, is open. Operations that other
// captures have left open do not count, since those captures may have been given up.
static inline bool ep_gpu_open_beside(const struct gpu_op *op, const struct gpu_op *other) {
  return other != op && other->state != EP_OP_FREE && other->capture == op->capture;
}

// --- op.c ---

// Finds the operation of that number, which has to be in that state. INVALID.
int ep_gpu_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct gpu_op **out);
// Checks what can be checked before an operation begins, and finds its place. `results`: the caller wants results.
int ep_gpu_op_prepare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool results, struct gpu_op **out);
// The operation did not begin, because of error `rc`, which is returned. Clears what the next operation in its place
// would otherwise release.
int ep_gpu_op_forget(struct gpu_op *op, int rc);
// Checks the order: operations end in the order in which they began. An operation can be combined while an earlier one
// is open only if it `keeps`; it then stays open until the earlier one has ended. *ahead: how many earlier ones are
// open. INVALID.
int ep_gpu_op_check_order(const weft_ep_t *ep, const struct gpu_op *op, bool keeps, const char *call, uint32_t *ahead);
// Launches the end of the operation.
int ep_gpu_op_end(weft_ep_t *ep, struct gpu_op *op, void *stream, const char *call);
// Launches the end of a barrier that could not be launched before. This has to precede the next operation, since the
// device would take that one for the barrier. BUSY: the stream is being captured.
int ep_gpu_op_end_barrier(weft_ep_t *ep, void *stream, uint64_t capture, const char *call);
// To be called after a launch: it went into the stream; it has begun, received or ended the operation.
void ep_gpu_op_launched(weft_ep_t *ep, struct gpu_op *op, void *stream);
void ep_gpu_op_begun(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_op_received(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_op_ended(weft_ep_t *ep, struct gpu_op *op);

// --- capture.c ---

// *capture: the capture that the stream is in; 0: none, so launches run.
int ep_gpu_find_capture(weft_ep_t *ep, void *stream, const char *call, uint64_t *capture);
// *outside: whether a capture has begun the operation while launches into the stream would run. Such a launch would end
// another operation, or one that does not exist.
int ep_gpu_op_outside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call, bool *outside);
// Checks for the reverse case. INVALID: the host would count the operation as ended, and the device would not.
int ep_gpu_op_check_runs(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call);
// Checks for both cases.
int ep_gpu_op_check_inside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call);
// INVALID: results are asked for in a capture. Captured launches do not run, so there are none.
int ep_gpu_check_results(bool captures, bool results, const char *call);

// --- dispatch.c ---

// Describes to which seats the launch sends no tokens.
void ep_gpu_describe_masks(weft_ep_t *ep, const struct gpu_op *op, struct device_dispatch *out);
// Launches the dispatch, or the halves of it that `args` names; `recv` may be NULL.
int ep_gpu_op_launch_dispatch(weft_ep_t *ep, struct gpu_op *op, const struct device_dispatch *args,
                              const struct weft_ep_recv_args *recv, void *stream, const char *call);

#endif
