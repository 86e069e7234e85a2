// Finds the operation of a call: its place, its state, and its end.
#include "ep/gpu/call/op.h"

#include "base/fail.h"
#include "ep/view/views.h"

int ep_gpu_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct gpu_op **out) {
  struct ep_gpu *gpu = ep->gpu;
  struct gpu_op *op = number & GPU_CAPTURED ? &gpu->captured[number % EP_DEPTH] : &gpu->ops[number % EP_DEPTH];
  bool open = op->state != EP_OP_FREE && op->number == number;
  int rc = ep_op_check_state(number, open, op->state, state, call);
  if (rc != 0)
    return rc;
  *out = op;
  return 0;
}

int ep_gpu_op_check_order(const weft_ep_t *ep, const struct gpu_op *op, bool keeps, const char *call, uint32_t *ahead) {
  const struct gpu_op *list = ep_gpu_op_captured(op) ? ep->gpu->captured : ep->gpu->ops;
  *ahead = 0;
  for (uint32_t i = 0; i < EP_DEPTH; i++) {
    const struct gpu_op *other = &list[i];
    if (!ep_gpu_open_beside(op, other))
      continue;
    if (keeps && other->state == EP_OP_ANSWERED)
      return fail(WEFT_ERR_INVALID,
                  "%s: KEEP is set, but the combine of operation %llu was sent but not received: receive it first",
                  call, (unsigned long long)(other->number & ~GPU_CAPTURED));
    *ahead += other->number < op->number && other->state != EP_OP_ANSWERED;
    if (*ahead > 0 && !keeps)
      return fail(
          WEFT_ERR_INVALID,
          "%s: operation %llu is open, and on CUDA memory operations end in order: end that one first, or set KEEP",
          call, (unsigned long long)(other->number & ~GPU_CAPTURED));
  }
  return 0;
}

int ep_gpu_op_end(weft_ep_t *ep, struct gpu_op *op, void *stream, const char *call) {
  char why[DEVICE_WHY] = "";
  int rc = ep->gpu->api->ep_finish(ep->gpu->engine, stream, why);
  if (rc != 0)
    return fail(rc, "%s: %s", call, why);
  ep_gpu_op_ended(ep, op);
  return 0;
}

int ep_gpu_op_end_barrier(weft_ep_t *ep, void *stream, uint64_t capture, const char *call) {
  struct gpu_op *op = NULL;
  for (uint32_t i = 0; i < EP_DEPTH; i++)
    if (ep->gpu->ops[i].barrier && ep->gpu->ops[i].state != EP_OP_FREE)
      op = &ep->gpu->ops[i];
  if (!op)
    return 0;
  if (capture)
    return fail(WEFT_ERR_BUSY,
                "%s: the end of barrier %llu could not be launched: call weft_ep_finish for it before the capture",
                call, (unsigned long long)op->number);
  return ep_gpu_op_end(ep, op, stream, call);
}

int ep_gpu_finish(weft_ep_t *ep, uint64_t number) {
  struct gpu_op *op = NULL;
  uint32_t ahead;
  bool outside = false;
  int rc = ep_gpu_op_find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0)
    rc = ep_gpu_op_outside(ep, op, op->stream, "finish", &outside);
  if (rc == 0 && outside) { // its capture has ended, or was given up
    ep_gpu_op_ended(ep, op);
    return 0;
  }
  if (rc == 0 && !ep_gpu_op_captured(op))
    rc = ep_gpu_op_check_runs(ep, op, op->stream, "finish");
  if (rc == 0)
    rc = ep_gpu_op_check_order(ep, op, false, "finish", &ahead);
  return rc == 0 ? ep_gpu_op_end(ep, op, op->stream, "finish") : rc;
}

// Finds the place of the next operation, whose launch goes into `stream`. A captured operation has no number of
// operations: it gets such numbers when it replays. With RECYCLE the former operation in that place is ended.
static int place(weft_ep_t *ep, void *stream, uint64_t capture, uint32_t flags, struct gpu_op **out) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t number = capture ? GPU_CAPTURED | gpu->captures : ep_gpu_next_op(ep);
  struct gpu_op *op = capture ? &gpu->captured[number % EP_DEPTH] : &gpu->ops[number % EP_DEPTH];
  if (flags & WEFT_EP_DISPATCH_RECYCLE && op->state == EP_OP_RECEIVED && op->capture == capture) {
    int rc = ep_gpu_op_end(ep, op, stream, "dispatch");
    if (rc != 0)
      return rc;
  }
  if (!capture && op->state != EP_OP_FREE)
    return fail(WEFT_ERR_BUSY,
                "dispatch: operation %llu is still open, and at most %d may be open at once: end it first",
                (unsigned long long)op->number, EP_DEPTH);
  if (op->route) // the results of the former operation are not available any more
    ep_route_unuse(op->route);
  *op = (struct gpu_op){.number = number, .capture = capture, .stream = stream};
  *out = op;
  return 0;
}

int ep_gpu_op_prepare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool results, struct gpu_op **op) {
  uint64_t capture;
  int rc = ep_gpu_find_capture(ep, args->stream, "dispatch", &capture);
  if (rc == 0)
    rc = ep_gpu_check_results(capture != 0, results, "dispatch");
  if (rc == 0)
    rc = ep_check_active(ep);
  if (rc == 0)
    rc = ep_gpu_op_end_barrier(ep, args->stream, capture, "dispatch");
  if (rc == 0)
    rc = ep_gpu_flow_check_begin(ep, capture != 0, "dispatch");
  if (rc == 0)
    rc = ep_gpu_route_compare(ep, args, capture != 0);
  return rc == 0 ? place(ep, args->stream, capture, args->flags, op) : rc;
}

int ep_gpu_op_forget(struct gpu_op *op, int rc) {
  op->route = NULL;
  return rc;
}

void ep_gpu_op_launched(weft_ep_t *ep, struct gpu_op *op, void *stream) {
  op->stream = stream;
  if (!ep_gpu_op_captured(op))
    ep->gpu->stream = stream;
}

void ep_gpu_op_begun(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_SENT;
  op->begun = true;
  if (ep_gpu_op_captured(op))
    ep->gpu->captures++;
  else
    ep->next_op = op->number + 1;
}

void ep_gpu_op_received(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_RECEIVED;
  op->received = true;
  if (!ep_gpu_op_captured(op))
    ep->gpu->launched_receives = op->number + 1;
}

void ep_gpu_op_ended(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_FREE;
  if (!ep_gpu_op_captured(op))
    ep->gpu->launched_ends = op->number + 1;
}
