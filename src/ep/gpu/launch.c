// Operations on CUDA memory: what the calls of weft/ep.h launch. What an argument has to be beside not NULL the plug-in
// checks, which alone can ask whose memory it is.
#include "base/fail.h"
#include "base/log.h"
#include "ep/gpu/gpu.h"
#include "ep/view/views.h"

// --- which operation ---

static int find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct gpu_op **out) {
  static const char *const before[] = {"", "dispatch_send", "dispatch_recv", "combine_send"};
  struct ep_gpu *gpu = ep->gpu;
  struct gpu_op *op = number & GPU_CAPTURED ? &gpu->captured[number % EP_DEPTH] : &gpu->ops[number % EP_DEPTH];
  if (op->state == EP_OP_FREE || op->number != number)
    return fail(WEFT_ERR_INVALID,
                "%s: operation %llu is not open: a dispatch gives the number, and the operation ends with its combine "
                "or weft_ep_finish",
                call, (unsigned long long)number);
  if (op->state != state)
    return fail(WEFT_ERR_INVALID, "%s: operation %llu has come to %s, but must have come to %s", call,
                (unsigned long long)number, before[op->state], before[state]);
  *out = op;
  return 0;
}

// *capture: 0: what is launched there runs.
static int find_capture(weft_ep_t *ep, void *stream, const char *call, uint64_t *capture) {
  char why[DEVICE_WHY] = "";
  *capture = 0;
  if (!ep->gpu->api->stream_capture)
    return 0;
  int rc = ep->gpu->api->stream_capture(stream, capture, why);
  return rc == 0 ? 0 : fail(rc, "%s: the stream: %s", call, why);
}

static bool captured(const struct gpu_op *op) {
  return op->number & GPU_CAPTURED;
}

// Whether a capture has begun the operation, and what is launched into the stream would run: it would end another
// operation, or one that there is not.
static int is_outside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call, bool *outside) {
  uint64_t capture = 0;
  int rc = captured(op) ? find_capture(ep, stream, call, &capture) : 0;
  *outside = captured(op) && capture == 0;
  return rc;
}

// The reverse: the host would count it as ended, and the device would not.
static int check_runs(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call) {
  uint64_t capture;
  int rc = find_capture(ep, stream, call, &capture);
  if (rc != 0 || capture == 0)
    return rc;
  return fail(WEFT_ERR_INVALID,
              "%s: operation %llu was not begun in a capture, and the stream is captured: end it before the capture",
              call, (unsigned long long)op->number);
}

static int check_inside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call) {
  bool outside;
  if (!captured(op))
    return check_runs(ep, op, stream, call);
  int rc = is_outside(ep, op, stream, call, &outside);
  if (rc != 0 || !outside)
    return rc;
  return fail(WEFT_ERR_INVALID,
              "%s: the operation was begun in a capture, and the stream is not captured: a graph ends "
              "what it begins",
              call);
}

static int finish(weft_ep_t *ep, struct gpu_op *op, void *stream, const char *call);

// A barrier whose end could not be launched has it before the next operation, which the device would take it for.
static int end_barrier(weft_ep_t *ep, void *stream, uint64_t capture, const char *call) {
  struct gpu_op *op = NULL;
  for (uint32_t i = 0; i < EP_DEPTH; i++)
    if (ep->gpu->ops[i].barrier && ep->gpu->ops[i].state != EP_OP_FREE)
      op = &ep->gpu->ops[i];
  if (!op)
    return 0;
  if (capture)
    return fail(WEFT_ERR_BUSY,
                "%s: the end of barrier %llu could not be launched: call weft_ep_finish with that before the capture",
                call, (unsigned long long)op->number);
  return finish(ep, op, stream, call);
}

// The place of the next operation, whose launch goes into `stream`. A captured one has no number among the others: it
// gets them when it replays. With RECYCLE the one before it there is ended.
static int place(weft_ep_t *ep, void *stream, uint64_t capture, uint32_t flags, struct gpu_op **out) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t number = capture ? GPU_CAPTURED | gpu->captures : ep_gpu_next_op(ep);
  struct gpu_op *op = capture ? &gpu->captured[number % EP_DEPTH] : &gpu->ops[number % EP_DEPTH];
  if (flags & WEFT_EP_DISPATCH_RECYCLE && op->state == EP_OP_RECEIVED && op->capture == capture) {
    int rc = finish(ep, op, stream, "dispatch");
    if (rc != 0)
      return rc;
  }
  if (!capture && op->state != EP_OP_FREE)
    return fail(WEFT_ERR_BUSY, "dispatch: operation %llu is still open, and %d may be at once: end it first",
                (unsigned long long)op->number, EP_DEPTH);
  if (op->route) // what it left can be asked for no longer
    ep_route_unuse(op->route);
  *op = (struct gpu_op){.number = number, .capture = capture, .stream = stream};
  *out = op;
  return 0;
}

// What is captured does not run, so there is nothing to report.
static int check_results(bool captures, bool results, const char *call) {
  if (!captures || !results)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "%s: no result is known while the stream is captured: call weft_ep_await after a replay", call);
}

// A launch went into the stream.
static void launched(weft_ep_t *ep, struct gpu_op *op, void *stream) {
  op->stream = stream;
  if (!captured(op))
    ep->gpu->stream = stream;
}

static void begun(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_SENT;
  op->begun = true;
  if (captured(op))
    ep->gpu->captures++;
  else
    ep->next_op = op->number + 1;
}

static void received(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_RECEIVED;
  op->received = true;
  if (!captured(op))
    ep->gpu->launched_receives = op->number + 1;
}

static void ended(weft_ep_t *ep, struct gpu_op *op) {
  op->state = EP_OP_FREE;
  if (!captured(op))
    ep->gpu->launched_ends = op->number + 1;
}

// --- dispatch ---

static void describe_masks(weft_ep_t *ep, const struct gpu_op *op, struct device_dispatch *out) {
  out->replays = captured(op);
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
  describe_masks(ep, op, out);
}

// What both halves say.
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
  out->weights = recv->weights;
  out->expert_total = recv->expert_total;
  out->wait_ns = recv->wait_ns;
  out->keep_places = recv->flags & WEFT_EP_RECV_KEEP_PLACES;
  out->out_scale_row_stride = (uint32_t)recv->scale_row_stride;
  out->out_scale_block_stride = (uint32_t)recv->scale_block_stride;
  out->out_scale_expert_stride = recv->scale_expert_stride;
  out->told = recv->told;
  out->lost = recv->lost;
  ep_gpu_describe_flow_recv(op, recv);
}

static int check_recv(const struct weft_ep_recv_args *recv) {
  if (!recv->rows_at)
    return 0;
  return fail(WEFT_ERR_INVALID, "dispatch_recv: rows_at is given, but rows on CUDA memory are copied: give x");
}

static int launch_dispatch(weft_ep_t *ep, struct gpu_op *op, const struct device_dispatch *args,
                           const struct weft_ep_recv_args *recv, void *stream, const char *call) {
  char why[DEVICE_WHY] = "";
  int rc = ep_gpu_launch_dispatch(ep, op, args, recv, stream, why);
  if (rc != 0)
    return fail(rc, "%s: %s", call, why);
  launched(ep, op, stream);
  return 0;
}

// Checks what can be checked before an operation begins, and finds its place.
static int prepare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool results, struct gpu_op **op) {
  uint64_t capture;
  int rc = find_capture(ep, args->stream, "dispatch", &capture);
  if (rc == 0)
    rc = check_results(capture != 0, results, "dispatch");
  if (rc == 0)
    rc = ep_check_active(ep);
  if (rc == 0)
    rc = end_barrier(ep, args->stream, capture, "dispatch");
  if (rc == 0)
    rc = ep_gpu_flow_check_begin(ep, capture != 0, "dispatch");
  if (rc == 0)
    rc = ep_gpu_route_compare(ep, args, capture != 0);
  return rc == 0 ? place(ep, args->stream, capture, args->flags, op) : rc;
}

// The operation has not begun: nothing of it is left that place() would let go of.
static int forget_route(struct gpu_op *op, int rc) {
  op->route = NULL;
  return rc;
}

int ep_gpu_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = prepare(ep, args, false, &op);
  if (rc != 0)
    return rc;
  describe_send(ep, op, args, &out);
  describe_form(op, &out);
  rc = launch_dispatch(ep, op, &out, NULL, args->stream, "dispatch_send");
  if (rc != 0)
    return forget_route(op, rc);
  begun(ep, op);
  if (op->route)
    ep_route_use(op->route);
  *number = op->number;
  return 0;
}

int ep_gpu_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                         struct weft_ep_info *info) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  if (rc == 0)
    rc = check_inside(ep, op, recv->stream, "dispatch_recv");
  if (rc == 0)
    rc = check_recv(recv);
  if (rc == 0)
    rc = ep_gpu_route_check_recv(op->keeps ? op->route : NULL, recv);
  if (rc == 0)
    rc = check_results(captured(op), info != NULL, "dispatch_recv");
  if (rc != 0)
    return rc;
  describe_receive(op, recv, &out);
  describe_form(op, &out);
  rc = launch_dispatch(ep, op, &out, recv, recv->stream, "dispatch_recv");
  if (rc != 0)
    return rc;
  received(ep, op);
  if (op->route && !op->keeps)
    ep_gpu_route_filled(op->route, op);
  return info ? ep_gpu_fill(ep, op, info, NULL, ep_gpu_patience_ms(ep)) : 0;
}

int ep_gpu_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                    struct weft_ep_info *info, uint64_t *number) {
  struct device_dispatch out = {.kind = EP_KIND_DISPATCH};
  struct gpu_op *op = NULL;
  int rc = check_recv(recv);
  if (rc == 0)
    rc = ep_gpu_route_check_recv(args->route && !ep_gpu_route_fills(args) ? args->route : NULL, recv);
  if (rc == 0)
    rc = prepare(ep, args, info != NULL, &op);
  if (rc != 0)
    return rc;
  describe_send(ep, op, args, &out);
  describe_receive(op, recv, &out);
  describe_form(op, &out);
  rc = launch_dispatch(ep, op, &out, recv, args->stream, "dispatch");
  if (rc != 0)
    return forget_route(op, rc);
  begun(ep, op);
  received(ep, op);
  if (op->route && !op->keeps)
    ep_gpu_route_filled(op->route, op);
  if (op->route)
    ep_route_use(op->route);
  *number = op->number;
  return info ? ep_gpu_fill(ep, op, info, NULL, ep_gpu_patience_ms(ep)) : 0;
}

// --- combine ---

// In a group for throughput.
static int check_flow_weights(const struct gpu_op *op, const struct weft_ep_combine_args *args, const char *call) {
  bool unweighted = op->rank_major || args->flags & WEFT_EP_COMBINE_UNWEIGHTED;
  if (!op->has_weights && !unweighted)
    return fail(WEFT_ERR_INVALID, "%s: the dispatch had no topk_weights: give them there, or set UNWEIGHTED", call);
  if (args->out_weights && !args->row_weights && op->rows > 0)
    return fail(WEFT_ERR_INVALID,
                "%s: out_weights are given and row_weights are NULL; on CUDA memory all ranks bring weights back, or "
                "none",
                call);
  if (args->row_weights && !op->rank_major)
    return fail(WEFT_ERR_INVALID, "%s: row_weights are given, but only rows that are RANK_MAJOR bring weights back",
                call);
  return 0;
}

static int check_combine(const weft_ep_t *ep, const struct gpu_op *op, const struct weft_ep_combine_args *args,
                         uint32_t halves, const char *call) {
  if (op->num_tokens > 0 && !args->out)
    return fail(WEFT_ERR_INVALID, "%s: out is NULL", call);
  if (op->round >= EP_MAX_COMBINES)
    return fail(WEFT_ERR_LIMIT, "%s: operation %llu has had %u combines, the most that one can have: end it", call,
                (unsigned long long)op->number, op->round);
  if (!(halves & DEVICE_SEND))
    return 0;
  if (op->rows > 0 && !args->y && !op->no_rows)
    return fail(WEFT_ERR_INVALID, "%s: y is NULL", call);
  if (ep_gpu_flows(ep))
    return check_flow_weights(op, args, call);
  if (op->has_weights && op->num_tokens > 0 && args->topk_weights)
    return fail(WEFT_ERR_INVALID, "%s: topk_weights were given with the dispatch already", call);
  if (!op->has_weights && !op->rank_major && !args->topk_weights)
    return fail(WEFT_ERR_INVALID, "%s: topk_weights is NULL here and was in the dispatch", call);
  if (!op->has_weights && op->rank_major && args->topk_weights)
    return fail(WEFT_ERR_INVALID, EP_NOT_LATE, call);
  return 0;
}

// Operations end in their order. One that another before it is open beside can be combined all the same, and stay open
// until that has ended. *ahead: how many are before it.
static int check_order(const weft_ep_t *ep, const struct gpu_op *op, bool keeps, const char *call, uint32_t *ahead) {
  const struct gpu_op *list = captured(op) ? ep->gpu->captured : ep->gpu->ops;
  *ahead = 0;
  for (uint32_t i = 0; i < EP_DEPTH; i++) {
    const struct gpu_op *other = &list[i];
    if (!ep_gpu_open_beside(op, other))
      continue;
    if (keeps && other->state == EP_OP_ANSWERED)
      return fail(WEFT_ERR_INVALID,
                  "%s: KEEP is set, but the combine of operation %llu has been sent and not been received: receive it "
                  "first",
                  call, (unsigned long long)(other->number & ~GPU_CAPTURED));
    *ahead += other->number < op->number && other->state != EP_OP_ANSWERED;
    if (*ahead > 0 && !keeps)
      return fail(WEFT_ERR_INVALID,
                  "%s: operation %llu is open, and on CUDA memory operations end in their order: end that one first, "
                  "or set KEEP",
                  call, (unsigned long long)(other->number & ~GPU_CAPTURED));
  }
  return 0;
}

// What every combine says.
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
  int rc = find(ep, number, halves & DEVICE_SEND ? EP_OP_RECEIVED : EP_OP_ANSWERED, call, &op);
  if (rc == 0)
    rc = check_inside(ep, op, args->stream, call);
  if (rc == 0)
    rc = check_combine(ep, op, args, halves, call);
  if (rc == 0)
    rc = check_results(captured(op), result != NULL, call);
  if (rc != 0)
    return rc;
  bool late = !op->has_weights && !op->rank_major && !ep_gpu_flows(ep), keeps = args->flags & WEFT_EP_COMBINE_KEEP;
  uint32_t ahead = 0;
  rc = ep_gpu_flows(ep) ? ep_gpu_flow_check_combine(ep, op, halves, keeps, call)
                        : check_order(ep, op, keeps, call, &ahead);
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
  launched(ep, op, args->stream);
  op->state = EP_OP_ANSWERED;
  if (!(halves & DEVICE_RECV))
    return 0;
  op->combined = true;
  if (keeps) {
    op->state = EP_OP_RECEIVED;
    op->round++;
  } else {
    ended(ep, op);
  }
  return result ? ep_gpu_fill(ep, op, NULL, result, ep_gpu_patience_ms(ep)) : 0;
}

// An operation of its own, which begins, is received and ends at once, unless it is kept; those before it have ended.
int ep_gpu_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result, uint64_t *number) {
  const struct gpu_route *its = route->gpu;
  struct weft_ep_dispatch_args begins = WEFT_EP_DISPATCH_ARGS_INIT;
  struct gpu_op *op = NULL;
  char why[DEVICE_WHY] = "";
  if (!its->filled)
    return fail(WEFT_ERR_INVALID, "combine_route: no dispatch has filled the route");
  begins.stream = args->stream;
  int rc = prepare(ep, &begins, result != NULL, &op);
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
    return forget_route(op, rc);
  struct device_combine out = combine_of(op, args, DEVICE_SEND | DEVICE_RECV);
  out.keeps = args->flags & WEFT_EP_COMBINE_KEEP;
  rc = ep_gpu_launch_combine_route(ep, op, &out, args, why);
  if (rc != 0)
    return forget_route(op, fail(rc, "combine_route: %s", why));
  launched(ep, op, args->stream);
  begun(ep, op);
  received(ep, op);
  ep_route_use(route);
  op->combined = true;
  if (out.keeps)
    op->round++;
  else
    ended(ep, op);
  *number = op->number;
  return result ? ep_gpu_fill(ep, op, NULL, result, ep_gpu_patience_ms(ep)) : 0;
}

int ep_gpu_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  (void)ep, (void)number, (void)rows_at;
  return fail(WEFT_ERR_UNSUPPORTED,
              "combine_rows: on CUDA memory rows are reduced and written by the kernel: give y, which is read where it "
              "lies");
}

static int finish(weft_ep_t *ep, struct gpu_op *op, void *stream, const char *call) {
  char why[DEVICE_WHY] = "";
  int rc = ep->gpu->api->ep_finish(ep->gpu->engine, stream, why);
  if (rc != 0)
    return fail(rc, "%s: %s", call, why);
  ended(ep, op);
  return 0;
}

int ep_gpu_finish(weft_ep_t *ep, uint64_t number) {
  struct gpu_op *op = NULL;
  uint32_t ahead;
  bool outside = false;
  int rc = find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0)
    rc = is_outside(ep, op, op->stream, "finish", &outside);
  if (rc == 0 && outside) { // its capture is over, or was given up
    ended(ep, op);
    return 0;
  }
  if (rc == 0 && !captured(op))
    rc = check_runs(ep, op, op->stream, "finish");
  if (rc == 0)
    rc = check_order(ep, op, false, "finish", &ahead);
  return rc == 0 ? finish(ep, op, op->stream, "finish") : rc;
}

int ep_gpu_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  uint64_t capture;
  int rc = find_capture(ep, stream, "mask_read", &capture);
  uint32_t count = cap < ep->capacity ? cap : ep->capacity;
  if (rc != 0 || count == 0)
    return rc;
  rc = gpu->api->ep_read_masks(gpu->engine, masked, count, atomic_load(&gpu->masked), capture != 0, stream, why);
  if (rc != 0)
    return fail(rc, "mask_read: %s", why);
  if (capture == 0)
    gpu->stream = stream;
  return 0;
}

// A barrier ends at once, and operations end in their order.
static int check_none_open(const weft_ep_t *ep) {
  for (uint32_t i = 0; i < EP_DEPTH; i++)
    if (ep->gpu->ops[i].state != EP_OP_FREE)
      return fail(WEFT_ERR_BUSY,
                  "barrier: operation %llu is open, and on CUDA memory operations end in their order: end "
                  "it first",
                  (unsigned long long)ep->gpu->ops[i].number);
  return 0;
}

// In the stream of the last launch, so that it comes after that.
int ep_gpu_barrier(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct device_dispatch out = {
      .halves = DEVICE_SEND | DEVICE_RECV, .kind = EP_KIND_BARRIER, .rank_major = true, .counts = gpu->counts};
  struct gpu_op *op = NULL;
  none.stream = gpu->stream;
  int rc = end_barrier(ep, gpu->stream, 0, "barrier");
  if (rc == 0)
    rc = check_none_open(ep);
  if (rc == 0)
    rc = prepare(ep, &none, true, &op);
  if (rc != 0)
    return rc;
  op->has_weights = op->rank_major = true;
  op->topk = ep->layout.topk;
  op->dtype = ep->dtype;
  describe_masks(ep, op, &out);
  rc = launch_dispatch(ep, op, &out, NULL, gpu->stream, "barrier");
  if (rc != 0)
    return rc;
  begun(ep, op);
  received(ep, op);
  op->barrier = true;
  if (finish(ep, op, op->stream, "barrier") != 0) // all the same the barrier is one for the others
    log_warn("rank %d: the next operation has to end the barrier: %s", ep->rank, weft_last_error());
  return ep_gpu_check_barrier(ep, op);
}
