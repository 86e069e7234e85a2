// What a launch in a group for throughput needs besides the structs that all groups have.
#include "base/fail.h"
#include "ep/gpu/call/op.h"

// The rows of the next operation use the places of rows that were sent, and so do answers. Captured operations are not
// checked, since a capture may have been given up: if a graph sends two operations before it receives one, the second
// waits for the first until the deadline.
int ep_gpu_flow_check_begin(const weft_ep_t *ep, bool captures, const char *call) {
  for (uint32_t i = 0; ep_gpu_flows(ep) && !captures && i < EP_DEPTH; i++)
    if (ep->gpu->ops[i].state == EP_OP_SENT)
      return fail(WEFT_ERR_BUSY,
                  "%s: operation %llu was sent but not received, and in a group for THROUGHPUT on CUDA memory the "
                  "window has room for only one operation: receive it first",
                  call, (unsigned long long)ep->gpu->ops[i].number);
  return 0;
}

// Operations end in their order, and answers are identified by the number of the operation: no operation may be
// combined after a newer one.
int ep_gpu_flow_check_combine(const weft_ep_t *ep, const struct gpu_op *op, uint32_t halves, bool keeps,
                              const char *call) {
  bool captured = ep_gpu_op_captured(op);
  const struct gpu_op *list = captured ? ep->gpu->captured : ep->gpu->ops;
  for (uint32_t i = 0; halves & DEVICE_SEND && i < EP_DEPTH; i++) {
    const struct gpu_op *other = &list[i];
    unsigned long long number = other->number & ~GPU_CAPTURED;
    if (!ep_gpu_open_beside(op, other))
      continue;
    if (other->state == EP_OP_ANSWERED && !captured)
      return fail(WEFT_ERR_BUSY, "%s: the combine of operation %llu was sent but not received: receive it first", call,
                  number);
    if (other->number > op->number && other->combined)
      return fail(WEFT_ERR_INVALID,
                  "%s: operation %llu has been combined already, and in a group for THROUGHPUT on CUDA memory an "
                  "operation cannot be combined after a newer one: end it by weft_ep_finish",
                  call, number);
    if (other->number < op->number && other->state != EP_OP_ANSWERED && !keeps)
      return fail(
          WEFT_ERR_INVALID,
          "%s: operation %llu is open, and on CUDA memory operations end in order: end that one first, or set KEEP",
          call, number);
  }
  return 0;
}

void ep_gpu_describe_flow_send(weft_ep_t *ep, struct gpu_op *op, const struct weft_ep_dispatch_args *args) {
  if (!ep_gpu_flows(ep))
    return;
  op->row_bytes = args->row_bytes;
  op->scale_bytes = args->scale_bytes;
  op->keeps = args->route && !ep_gpu_route_fills(args);
  op->route = args->route;
  if (op->keeps)
    ep_gpu_route_follow(op);
}

void ep_gpu_describe_flow_recv(struct gpu_op *op, const struct weft_ep_recv_args *recv) {
  op->packed = recv->layout == WEFT_EP_PACKED;
  op->alignment = recv->alignment ? recv->alignment : 1;
}

static struct device_route *memory_of(const struct gpu_op *op) {
  return op->route ? op->route->gpu->memory : NULL;
}

int ep_gpu_launch_dispatch(weft_ep_t *ep, const struct gpu_op *op, const struct device_dispatch *args,
                           const struct weft_ep_recv_args *recv, void *stream, char *why) {
  const struct ep_gpu *gpu = ep->gpu;
  if (!ep_gpu_flows(ep))
    return gpu->api->ep_dispatch(gpu->engine, args, stream, why);
  struct device_flow_dispatch flow = {.d = *args,
                                      .place = op->number % EP_DEPTH,
                                      .row_bytes = op->row_bytes,
                                      .scale_bytes = op->scale_bytes,
                                      .alignment = 1,
                                      .route = memory_of(op),
                                      .keeps = op->keeps};
  flow.d.processors = op->input.processors;
  if (op->keeps)
    flow.d.topk_weights = NULL; // the receivers have kept the weights
  if (recv) {
    flow.packed = op->packed;
    flow.alignment = op->alignment;
    flow.zero_padding = recv->flags & WEFT_EP_RECV_ZERO_PADDING;
    flow.expert_end = recv->expert_end;
    flow.slot = recv->slot;
  }
  return gpu->api->flow_dispatch(gpu->engine, &flow, stream, why);
}

static struct device_flow_combine describe_combine(const struct gpu_op *op, const struct device_combine *args,
                                                   const struct weft_ep_combine_args *given) {
  struct device_flow_combine flow = {.c = *args,
                                     .place = op->number % EP_DEPTH,
                                     .packed = op->packed,
                                     .rows = op->rows,
                                     .unweighted = given->flags & WEFT_EP_COMBINE_UNWEIGHTED,
                                     .bias = {given->bias[0], given->bias[1]},
                                     .row_weights = given->row_weights,
                                     .out_weights = given->out_weights,
                                     .route = memory_of(op)};
  if (flow.unweighted || !op->has_weights)
    flow.c.topk_weights = NULL;
  return flow;
}

int ep_gpu_launch_combine(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                          const struct weft_ep_combine_args *given, char *why) {
  const struct ep_gpu *gpu = ep->gpu;
  if (!ep_gpu_flows(ep))
    return gpu->api->ep_combine(gpu->engine, args, given->stream, why);
  const struct device_flow_combine flow = describe_combine(op, args, given);
  return gpu->api->flow_combine(gpu->engine, &flow, given->stream, why);
}

int ep_gpu_launch_combine_route(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                                const struct weft_ep_combine_args *given, char *why) {
  const struct ep_gpu *gpu = ep->gpu;
  struct device_flow_combine flow = describe_combine(op, args, given);
  flow.begins = true;
  flow.replays = ep_gpu_op_captured(op);
  return gpu->api->flow_combine(gpu->engine, &flow, given->stream, why);
}
