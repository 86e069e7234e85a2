// Barriers on CUDA memory: operations without rows, which end at once.
#include "base/fail.h"
#include "base/log.h"
#include "ep/gpu/call/op.h"

// A barrier ends at once, and operations end in their order.
static int check_none_open(const weft_ep_t *ep) {
  for (uint32_t i = 0; i < EP_DEPTH; i++)
    if (ep->gpu->ops[i].state != EP_OP_FREE)
      return fail(WEFT_ERR_BUSY,
                  "barrier: operation %llu is open, and on CUDA memory operations end in order: end it first",
                  (unsigned long long)ep->gpu->ops[i].number);
  return 0;
}

// Launches in the stream of the last launch, so that it runs after that one.
int ep_gpu_barrier(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct device_dispatch out = {
      .halves = DEVICE_SEND | DEVICE_RECV, .kind = EP_KIND_BARRIER, .rank_major = true, .counts = gpu->counts};
  struct gpu_op *op = NULL;
  none.stream = gpu->stream;
  int rc = ep_gpu_op_end_barrier(ep, gpu->stream, 0, "barrier");
  if (rc == 0)
    rc = check_none_open(ep);
  if (rc == 0)
    rc = ep_gpu_op_prepare(ep, &none, true, &op);
  if (rc != 0)
    return rc;
  op->has_weights = op->rank_major = true;
  op->topk = ep->layout.topk;
  op->dtype = ep->dtype;
  ep_gpu_describe_masks(ep, op, &out);
  rc = ep_gpu_op_launch_dispatch(ep, op, &out, NULL, gpu->stream, "barrier");
  if (rc != 0)
    return rc;
  ep_gpu_op_begun(ep, op);
  ep_gpu_op_received(ep, op);
  op->barrier = true;
  if (ep_gpu_op_end(ep, op, op->stream, "barrier") != 0) // the other ranks have the barrier all the same
    log_warn("rank %d: the barrier did not end, and the next operation has to end it: %s", ep->rank, weft_last_error());
  return ep_gpu_check_barrier(ep, op);
}
