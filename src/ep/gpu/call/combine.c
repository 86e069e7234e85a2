// Combines on CUDA memory, with and without a route.
#include "base/fail.h"
#include "ep/gpu/call/op.h"

// In a group for throughput.
static int check_flow_weights(const struct gpu_op *op, const struct weft_ep_combine_args *args, const char *call) {
  bool unweighted = op->rank_major || args->flags & WEFT_EP_COMBINE_UNWEIGHTED;
  if (!op->has_weights && !unweighted)
    return fail(WEFT_ERR_INVALID, "%s: the dispatch had no topk_weights: give them to the dispatch, or set UNWEIGHTED",
                call);
  if (args->out_weights && !args->row_weights && op->rows > 0)
    return fail(WEFT_ERR_INVALID,
                "%s: out_weights are given, but row_weights are NULL; on CUDA memory either all ranks send weights "
                "back, or none",
                call);
  return 0;
}

static int check_combine(const weft_ep_t *ep, const struct gpu_op *op, const struct weft_ep_combine_args *args,
                         uint32_t halves, const char *call) {
  if (op->num_tokens > 0 && !args->out)
    return fail(WEFT_ERR_INVALID, "%s: out is NULL", call);
  if (op->round >= EP_MAX_COMBINES)
    return fail(WEFT_ERR_LIMIT, "%s: operation %llu has had %u combines, the most that an operation can have: end it",
                call, (unsigned long long)op->number, op->round);
  if (!(halves & DEVICE_SEND))
    return 0;
  if (op->rows > 0 && !args->y && !op->no_rows)
    return fail(WEFT_ERR_INVALID, "%s: y is NULL", call);
  if (ep_gpu_flows(ep))
    return check_flow_weights(op, args, call);
  if (op->has_weights && op->num_tokens > 0 && args->topk_weights)
    return fail(WEFT_ERR_INVALID, "%s: topk_weights were given to the dispatch already: leave them NULL", call);
  if (!op->has_weights && !op->rank_major && !args->topk_weights)
    return fail(WEFT_ERR_INVALID, "%s: topk_weights is NULL here, and was NULL in the dispatch: give it to one of them",
                call);
  if (!op->has_weights && op->rank_major && args->topk_weights)
    return fail(WEFT_ERR_INVALID, EP_NOT_LATE, call);
  return 0;
}

// The device arguments that all combines have.
static struct device_combine combine_of(const struct gpu_op *op, const struct weft_ep_combine_args *args,
                                        uint32_t halves) {
  return (struct device_combine){.halves = halves,
                                 .rank_major = op->rank_major,
                                 .renormalize = args->flags & WEFT_EP_COMBINE_RENORMALIZE,
                                 .topk = op->topk,
                                 .dtype = (int)op->combine_dtype,
                                 .processors = args->processors,
                                 .narrow = op->narrow,
                                 .y = args->y,
                                 .out = args->out,
                                 .num_tokens = op->num_tokens,
                                 .topk_idx = op->topk_idx,
                                 .topk_weights = op->topk_weights};
}

int ep_gpu_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, uint32_t halves,
                   struct weft_ep_result *result, const char *call) {
  struct gpu_op *op = NULL;
  char why[DEVICE_WHY] = "";
  int rc = ep_gpu_op_find(ep, number, halves & DEVICE_SEND ? EP_OP_RECEIVED : EP_OP_ANSWERED, call, &op);
  if (rc == 0)
    rc = ep_gpu_op_check_inside(ep, op, args->stream, call);
  if (rc == 0)
    rc = check_combine(ep, op, args, halves, call);
  if (rc == 0)
    rc = ep_gpu_check_results(ep_gpu_op_captured(op), result != NULL, call);
  if (rc != 0)
    return rc;
  bool late = !op->has_weights && !op->rank_major && !ep_gpu_flows(ep), keeps = args->flags & WEFT_EP_COMBINE_KEEP;
  uint32_t ahead = 0;
  rc = ep_gpu_flows(ep) ? ep_gpu_flow_check_combine(ep, op, halves, keeps, call)
                        : ep_gpu_op_check_order(ep, op, keeps, call, &ahead);
  if (rc != 0)
    return rc;
  if (late)
    op->topk_weights = args->topk_weights;
  if (halves & DEVICE_SEND)
    op->combine_dtype = args->dtype ? args->dtype : ep->combine_dtype;
  struct device_combine out = combine_of(op, args, halves);
  out.late_weights = late;
  out.keeps = keeps && halves & DEVICE_RECV;
  out.ahead = ahead;
  out.again = op->round > 0;
  rc = ep_gpu_launch_combine(ep, op, &out, args, why);
  if (rc != 0)
    return fail(rc, "%s: %s", call, why);
  ep_gpu_op_launched(ep, op, args->stream);
  op->state = EP_OP_ANSWERED;
  if (!(halves & DEVICE_RECV))
    return 0;
  op->combined = true;
  if (keeps) {
    op->state = EP_OP_RECEIVED;
    op->round++;
  } else {
    ep_gpu_op_ended(ep, op);
  }
  return result ? ep_gpu_fill(ep, op, NULL, result, ep_gpu_wait_limit_ms(ep)) : 0;
}

// A separate operation, which begins, is received and ends at once, unless it is kept; earlier operations have ended.
int ep_gpu_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result, uint64_t *number) {
  const struct gpu_route *its = route->gpu;
  struct weft_ep_dispatch_args begins = WEFT_EP_DISPATCH_ARGS_INIT;
  struct gpu_op *op = NULL;
  char why[DEVICE_WHY] = "";
  if (!its->filled)
    return fail(WEFT_ERR_INVALID, "combine_route: no dispatch has filled the route");
  begins.stream = args->stream;
  int rc = ep_gpu_op_prepare(ep, &begins, result != NULL, &op);
  if (rc != 0)
    return rc;
  op->route = route;
  op->keeps = true;
  ep_gpu_route_follow(op);
  op->rank_major = its->rank_major;
  op->packed = its->packed;
  op->rows = its->rows;
  op->dtype = ep->dtype;
  op->combine_dtype = args->dtype ? args->dtype : ep->combine_dtype;
  rc = check_combine(ep, op, args, DEVICE_SEND | DEVICE_RECV, "combine_route");
  if (rc == 0)
    rc = ep_gpu_flow_check_combine(ep, op, DEVICE_SEND, args->flags & WEFT_EP_COMBINE_KEEP, "combine_route");
  if (rc != 0)
    return ep_gpu_op_forget(op, rc);
  struct device_combine out = combine_of(op, args, DEVICE_SEND | DEVICE_RECV);
  out.keeps = args->flags & WEFT_EP_COMBINE_KEEP;
  rc = ep_gpu_launch_combine_route(ep, op, &out, args, why);
  if (rc != 0)
    return ep_gpu_op_forget(op, fail(rc, "combine_route: %s", why));
  ep_gpu_op_launched(ep, op, args->stream);
  ep_gpu_op_begun(ep, op);
  ep_gpu_op_received(ep, op);
  ep_route_use(route);
  op->combined = true;
  if (out.keeps)
    op->round++;
  else
    ep_gpu_op_ended(ep, op);
  *number = op->number;
  return result ? ep_gpu_fill(ep, op, NULL, result, ep_gpu_wait_limit_ms(ep)) : 0;
}

int ep_gpu_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  (void)ep, (void)number, (void)rows_at;
  return fail(WEFT_ERR_UNSUPPORTED, "combine_rows: on CUDA memory the kernel reduces and writes the rows: give y to "
                                    "the combine, which reads it in place");
}
