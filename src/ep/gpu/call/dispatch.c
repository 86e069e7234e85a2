// Dispatches on CUDA memory. Here pointers are only checked for NULL; the plug-in checks the rest, since only it can
// query whose memory a pointer refers to.
#include "base/fail.h"
#include "ep/gpu/call/op.h"

void ep_gpu_describe_masks(weft_ep_t *ep, const struct gpu_op *op, struct device_dispatch *out) {
  out->replays = ep_gpu_op_captured(op);
  out->masked = atomic_load(&ep->gpu->masked);
}

static void describe_send(weft_ep_t *ep, struct gpu_op *op, const struct weft_ep_dispatch_args *args,
                          struct device_dispatch *out) {
  op->num_tokens = args->num_tokens;
  op->has_weights = args->topk_weights != NULL || args->num_tokens == 0;
  op->narrow = args->topk_idx32 != NULL;
  op->topk_idx = op->narrow ? (const void *)args->topk_idx32 : args->topk_idx;
  op->topk_weights = args->topk_weights;
  op->topk = args->topk ? args->topk : ep->layout.topk;
  op->dtype = args->dtype ? args->dtype : ep->dtype;
  op->combine_dtype = ep->combine_dtype;
  op->input = (struct gpu_input){.x = args->x,
                                 .scales = args->scales,
                                 .row_stride = (uint32_t)args->row_stride,
                                 .scale_row_stride = (uint32_t)args->scale_row_stride,
                                 .scale_block_stride = (uint32_t)args->scale_block_stride,
                                 .processors = args->processors};
  ep_gpu_describe_flow_send(ep, op, args);
  out->halves |= DEVICE_SEND;
  out->processors = args->processors;
  out->num_tokens_at = args->num_tokens_at;
  ep_gpu_describe_masks(ep, op, out);
}

// Describes what both halves need.
static void describe_form(const struct gpu_op *op, struct device_dispatch *out) {
  out->x = op->input.x;
  out->scales = op->input.scales;
  out->row_stride = op->input.row_stride;
  out->scale_row_stride = op->input.scale_row_stride;
  out->scale_block_stride = op->input.scale_block_stride;
  out->topk = op->topk;
  out->dtype = (int)op->dtype;
  out->topk_idx = op->topk_idx;
  out->narrow = op->narrow;
  out->topk_weights = op->topk_weights;
  out->num_tokens = op->num_tokens;
}

static void describe_receive(struct gpu_op *op, const struct weft_ep_recv_args *recv, struct device_dispatch *out) {
  op->rank_major = recv->layout == WEFT_EP_RANK_MAJOR;
  op->rows = recv->rows;
  out->halves |= DEVICE_RECV;
  out->rank_major = op->rank_major;
  out->rows = recv->rows;
  out->out = recv->x;
  out->out_scales = recv->scales;
  out->counts = recv->counts;
  out->src_rank = recv->src_rank;
  out->src_token = recv->src_token;
  out->range = recv->range;
  out->local_expert = recv->local_expert;
  out->weights = recv->layout == WEFT_EP_PER_EXPERT ? NULL : recv->weights;
  out->expert_total = recv->expert_total;
  out->wait_ns = recv->wait_ns;
  out->keep_places = recv->flags & WEFT_EP_RECV_KEEP_PLACES;
  out->out_scale_row_stride = (uint32_t)recv->scale_row_stride;
  out->out_scale_block_stride = (uint32_t)recv->scale_block_stride;
  out->out_scale_expert_stride = recv->scale_expert_stride;
  out->status = recv->status;
  out->lost = recv->lost;
  ep_gpu_describe_flow_recv(op, recv);
}

static int check_recv(const struct weft_ep_recv_args *recv) {
  if (!recv->rows_at)
    return 0;
  return fail(WEFT_ERR_INVALID, "dispatch_recv: rows_at is given, but on CUDA memory rows are always copied: give x");
}

int ep_gpu_op_launch_dispatch(weft_ep_t *ep, struct gpu_op *op, const struct device_dispatch *args,
                              const struct weft_ep_recv_args *recv, void *stream, const char *call) {
  char why[DEVICE_WHY] = "";
  int rc = ep_gpu_launch_dispatch(ep, op, args, recv, stream, why);
  if (rc != 0)
    return fail(rc, "%s: %s", call, why);
  ep_gpu_op_launched(ep, op, stream);
  return 0;
}

int ep_gpu_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = ep_gpu_op_prepare(ep, args, false, &op);
  if (rc != 0)
    return rc;
  describe_send(ep, op, args, &out);
  describe_form(op, &out);
  rc = ep_gpu_op_launch_dispatch(ep, op, &out, NULL, args->stream, "dispatch_send");
  if (rc != 0)
    return ep_gpu_op_forget(op, rc);
  ep_gpu_op_begun(ep, op);
  if (op->route)
    ep_route_use(op->route);
  *number = op->number;
  return 0;
}

int ep_gpu_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                         struct weft_ep_info *info) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = ep_gpu_op_find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  if (rc == 0)
    rc = ep_gpu_op_check_inside(ep, op, recv->stream, "dispatch_recv");
  if (rc == 0)
    rc = check_recv(recv);
  if (rc == 0)
    rc = ep_gpu_route_check_recv(op->keeps ? op->route : NULL, recv);
  if (rc == 0)
    rc = ep_gpu_check_results(ep_gpu_op_captured(op), info != NULL, "dispatch_recv");
  if (rc != 0)
    return rc;
  describe_receive(op, recv, &out);
  describe_form(op, &out);
  rc = ep_gpu_op_launch_dispatch(ep, op, &out, recv, recv->stream, "dispatch_recv");
  if (rc != 0)
    return rc;
  ep_gpu_op_received(ep, op);
  if (op->route && !op->keeps)
    ep_gpu_route_filled(op->route, op);
  return info ? ep_gpu_fill(ep, op, info, NULL, ep_gpu_wait_limit_ms(ep)) : 0;
}

int ep_gpu_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                    struct weft_ep_info *info, uint64_t *number) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = check_recv(recv);
  if (rc == 0)
    rc = ep_gpu_route_check_recv(args->route && !ep_gpu_route_fills(args) ? args->route : NULL, recv);
  if (rc == 0)
    rc = ep_gpu_op_prepare(ep, args, info != NULL, &op);
  if (rc != 0)
    return rc;
  describe_send(ep, op, args, &out);
  describe_receive(op, recv, &out);
  describe_form(op, &out);
  rc = ep_gpu_op_launch_dispatch(ep, op, &out, recv, args->stream, "dispatch");
  if (rc != 0)
    return ep_gpu_op_forget(op, rc);
  ep_gpu_op_begun(ep, op);
  ep_gpu_op_received(ep, op);
  if (op->route && !op->keeps)
    ep_gpu_route_filled(op->route, op);
  if (op->route)
    ep_route_use(op->route);
  *number = op->number;
  return info ? ep_gpu_fill(ep, op, info, NULL, ep_gpu_wait_limit_ms(ep)) : 0;
}
