// Launches of a group for throughput: control, which is an operation without rows, and the kernels that move rows, one
// after the other in the caller's stream.
#include "cuda/engine/engine.h"

// --- dispatch ---

// `most`: as the caller says.
static uint32_t blocks(const struct device_ep *ep, uint32_t most) {
  most = most ? most : EP_PROCESSORS;
  return most < ep->blocks ? most : ep->blocks;
}

// The format in which the rows of a dispatch are sent.
static struct cuda_row_shape shape_of(const struct device_ep *ep, const struct device_flow_dispatch *f, int dtype) {
  uint32_t hidden = ep->options.hidden, scales = hidden / CUDA_BLOCK;
  struct cuda_row_shape shape = {.in_bytes = 2 * hidden, .value_bytes = 2 * hidden};
  if (dtype == WEFT_EP_OPAQUE)
    return (struct cuda_row_shape){
        .in_bytes = f->row_bytes, .value_bytes = f->row_bytes, .scale_words = f->scale_bytes / 4};
  if (dtype == CUDA_BF16)
    return shape;
  shape.value_bytes = hidden;
  shape.scale_words = dtype == CUDA_FP8_UE8M0 ? (scales + 3) / 4 : scales;
  shape.casts = f->d.scales || f->d.num_tokens == 0 ? 0 : dtype;
  shape.in_bytes = shape.casts ? 2 * hidden : hidden;
  return shape;
}

// If one kernel sends data and a later one receives it, all of it has to fit into the window, since nobody reads it in
// the meantime.
struct sent_whole {
  const struct cuda_ring *ring;
  uint32_t tokens;         // maximum for a rank
  const char *what, *call; // what: the contents of the ring; call: the call that has both halves
};

static int check_fits(const struct device_ep *ep, uint32_t halves, const struct sent_whole *sent, char *why) {
  uint32_t most = cuda_ring_tokens(sent->ring);
  if (halves != DEVICE_SEND || sent->tokens <= most)
    return 0;
  return cuda_why(why, WEFT_ERR_LIMIT,
                  "a window holds the %s %u tokens, and there may be %u: call %s for both halves, or open the group "
                  "with window_bytes of %llu",
                  sent->what, most, sent->tokens, sent->call,
                  (unsigned long long)(ep->streams.offset + cuda_flow_bytes_for(sent->ring, sent->tokens)));
}

static int check_dispatch(struct device_ep *ep, const struct device_flow_dispatch *f,
                          const struct cuda_row_shape *shape, char *why) {
  const struct cuda_argument list[] = {
      {"recv.slot", f->slot, sizeof *f->slot, false},
      {"recv.expert_end", f->expert_end, sizeof *f->expert_end, false},
  };
  bool sends = f->d.halves & DEVICE_SEND, receives = f->d.halves & DEVICE_RECV;
  const struct sent_whole sent = {&ep->streams.flow.rows, f->d.num_tokens, "rows of", "weft_ep_dispatch"};
  int rc = check_fits(ep, f->d.halves, &sent, why);
  if (rc == 0 && sends)
    rc = cuda_check_sent(ep, &f->d, !f->keeps, why);
  if (rc == 0 && receives)
    rc = cuda_check_received(ep, &f->d, shape->scale_words > 0, why);
  return rc == 0 && receives ? cuda_check_arguments(ep, list, CUDA_COUNT(list), why) : rc;
}

static const struct cuda_routing *routing_of(const struct cuda_open_op *open, const struct device_route *route) {
  return route ? &route->routing : &open->routing;
}

// Prepares the data of an operation that begins.
static struct cuda_open_op *begin_open_op(struct device_ep *ep, uint32_t place, const struct device_route *route) {
  struct cuda_open_op *open = &ep->streams.open_ops[place % EP_DEPTH];
  open->seats = routing_of(open, route)->arrays.seats;
  return open;
}

static int launch_plan(struct device_ep *ep, const struct device_flow_dispatch *f, const struct cuda_open_op *open,
                       uint32_t topk, void *stream, char *why) {
  struct cuda_plan_args args = {.state = ep->state,
                                .route = routing_of(open, f->route)->route,
                                .op = open->op,
                                .flow = ep->streams.flow,
                                .topk_idx = f->d.topk_idx,
                                .num_tokens_at = f->d.num_tokens_at,
                                .num_tokens = f->d.num_tokens,
                                .topk = topk,
                                .workspace = ep->streams.plan_workspace,
                                .masked = f->d.masked,
                                .members = ep->members,
                                .narrow = f->d.narrow,
                                .replays = f->d.replays};
  if (f->route)
    cuda_route_blanks(f->route, f->d.halves & DEVICE_RECV, args.blank);
  return cuda_launched(ep, cuda_launch_plan(&args, blocks(ep, f->d.processors), cuda_early(ep), stream), stream,
                       "cannot launch the plan of a dispatch", why);
}

static int launch_control(struct device_ep *ep, const struct device_flow_dispatch *f, const struct cuda_open_op *open,
                          const struct device_route *route, struct cuda_control_args *args, void *stream, char *why) {
  args->base.state = ep->state;
  args->base.layout = ep->layout;
  args->base.capacity = ep->options.capacity;
  args->base.members = ep->members;
  args->base.d = f->d;
  args->base.d.num_tokens = 0; // control has no rows
  args->route = routing_of(open, route)->route;
  args->op = open->op;
  args->counts = open->counts;
  args->stream = ep->streams.offset;
  args->experts = ep->options.experts_per_rank;
  args->by_experts = cuda_divisor_of(args->experts);
  args->max_tokens = ep->options.max_tokens;
  args->filled = route ? route->filled : NULL;
  args->filled_alignment = route ? route->options.alignment : 1;
  return cuda_launched(ep, cuda_launch_control(args, cuda_early(ep), stream), stream, "cannot launch control", why);
}

static int layout_of(const struct device_flow_dispatch *f) {
  return f->packed ? WEFT_EP_PACKED : f->d.rank_major ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT;
}

// Whether a launch between control and the rows has to make a half of the route blank, because no plan of the same call
// does it.
static bool clears_route(const struct device_flow_dispatch *f) {
  return f->route && !f->keeps && f->d.halves == DEVICE_RECV;
}

static int launch_rows(struct device_ep *ep, const struct device_flow_dispatch *f, const struct cuda_open_op *open,
                       const struct cuda_row_shape *shape, uint32_t topk, bool plans, void *stream, char *why) {
  const struct device_dispatch *d = &f->d;
  const struct cuda_rows_args args = {.state = ep->state,
                                      .route = routing_of(open, f->route)->route,
                                      .op = open->op,
                                      .flow = ep->streams.flow,
                                      .shape = *shape,
                                      .topk = topk,
                                      .members = ep->members,
                                      .ranks = __atomic_load_n(&ep->ranks, __ATOMIC_RELAXED),
                                      .kept = f->keeps,
                                      .overlaps = cuda_early(ep) && !clears_route(f),
                                      .planners = plans ? blocks(ep, d->processors) : 0,
                                      .halves = d->halves,
                                      .layout = layout_of(f),
                                      .keep_places = d->keep_places,
                                      .zero_padding = f->zero_padding,
                                      .alignment = f->alignment,
                                      .capacity = ep->options.capacity,
                                      .x = d->x,
                                      .scales = d->scales,
                                      .topk_weights = d->topk_weights,
                                      .row_stride = d->row_stride,
                                      .scale_row_stride = d->scale_row_stride,
                                      .scale_block_stride = d->scale_block_stride,
                                      .rows = d->rows,
                                      .out_scale_row_stride = d->out_scale_row_stride,
                                      .out_scale_block_stride = d->out_scale_block_stride,
                                      .out_scale_expert_stride = d->out_scale_expert_stride,
                                      .out = d->out,
                                      .out_scales = d->out_scales,
                                      .counts = d->counts,
                                      .src_rank = d->src_rank,
                                      .src_token = d->src_token,
                                      .range = d->range,
                                      .local_expert = d->local_expert,
                                      .weights = d->weights,
                                      .expert_total = d->expert_total,
                                      .slot = f->slot,
                                      .expert_end = f->expert_end,
                                      .workspace = ep->streams.rows_workspace,
                                      .max_rows = cuda_max_rows(&ep->options)};
  return cuda_launched(ep, cuda_launch_rows(&args, blocks(ep, d->processors), cuda_early(ep), stream), stream,
                       "cannot launch the rows of a dispatch", why);
}

// Launches after the rows: the notification of the result, and the lists of a route that the rows fill.
static int launch_notify(struct device_ep *ep, const struct device_flow_dispatch *f, const struct cuda_open_op *open,
                         uint32_t topk, void *stream, char *why) {
  const struct device_dispatch *d = &f->d;
  bool fills = f->route && !f->keeps;
  struct cuda_notify_args notify = {.op = open->op, .filled = fills ? f->route->filled : NULL};
  notify.base.state = ep->state;
  notify.base.layout = ep->layout;
  notify.base.capacity = ep->options.capacity;
  notify.base.d = *d;
  if (fills) {
    struct cuda_lists_args lists = {.halves = d->halves,
                                    .topk = topk,
                                    .topk_idx = d->topk_idx,
                                    .topk_weights = d->topk_weights,
                                    .narrow = d->narrow,
                                    .notify = notify,
                                    .layout = layout_of(f),
                                    .rows = d->rows,
                                    .received_alignment = f->alignment ? f->alignment : 1};
    return cuda_launch_route_lists(ep, f->route, &lists, blocks(ep, d->processors), stream, why);
  }
  if (!(d->halves & DEVICE_RECV) || !(d->status || d->lost))
    return 0;
  return cuda_launched(ep, cuda_launch_notify(&notify, cuda_early(ep), stream), stream,
                       "cannot launch the notification", why);
}

static int launch_dispatch(struct device_ep *ep, const struct device_flow_dispatch *f, void *stream, char *why) {
  const struct device_dispatch *d = &f->d;
  const struct cuda_open_op *open = begin_open_op(ep, f->place, f->route);
  uint32_t topk = d->topk ? d->topk : ep->options.topk;
  int dtype = d->dtype ? d->dtype : ep->options.dtype;
  struct cuda_row_shape shape = shape_of(ep, f, dtype);
  bool rows = d->kind == 1;
  bool plans = rows && d->halves & DEVICE_SEND && !f->keeps;
  int rc = rows ? check_dispatch(ep, f, &shape, why) : 0;
  if (rc == 0 && f->keeps)
    rc = cuda_check_route(f->route, why);
  if (rc == 0 && plans)
    rc = launch_plan(ep, f, open, topk, stream, why);
  uint32_t form = cuda_flow_form((uint32_t)dtype, topk, shape.value_bytes, shape.scale_words);
  // A kernel starts while the one ahead runs, if there is nothing else between them in the stream.
  struct cuda_control_args control = {.form = form,
                                      .topk = topk,
                                      .overlaps = cuda_early(ep) && plans,
                                      .keeps = f->keeps,
                                      .no_rows = !rows,
                                      .layout = layout_of(f),
                                      .alignment = f->alignment ? f->alignment : 1};
  if (rc == 0)
    rc = launch_control(ep, f, open, f->route, &control, stream, why);
  if (rc == 0 && rows && clears_route(f))
    rc = cuda_clear_route(f->route, stream, why);
  if (rc == 0 && rows)
    rc = launch_rows(ep, f, open, &shape, topk, plans, stream, why);
  if (rc == 0 && rows)
    rc = launch_notify(ep, f, open, topk, stream, why);
  return rc;
}

int cuda_flow_dispatch(struct device_ep *ep, const struct device_flow_dispatch *f, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  uint64_t before = ep->last_launch;
  rc = launch_dispatch(ep, f, stream, why);
  rc = cuda_launched_all(ep, before, f->keeps ? NULL : f->route, rc, stream, why);
  cuda_leave(&guard);
  return rc;
}

// --- combine ---

static int check_combine(struct device_ep *ep, const struct device_flow_combine *f, char *why) {
  const struct device_combine *c = &f->c;
  bool some = c->num_tokens > 0 && c->halves & DEVICE_RECV;
  const struct cuda_argument list[] = {
      {"y", c->y, CUDA_PIECE, false},
      {"out", some ? c->out : NULL, CUDA_PIECE, some},
      {"bias[0]", some ? f->bias[0] : NULL, CUDA_PIECE, false},
      {"bias[1]", some ? f->bias[1] : NULL, CUDA_PIECE, false},
      {"row_weights", f->row_weights, sizeof *f->row_weights, false},
      {"out_weights", some ? f->out_weights : NULL, sizeof *f->out_weights, false},
      {"topk_weights", some && c->renormalize ? c->topk_weights : NULL, sizeof *c->topk_weights, false},
  };
  // Only the device knows how many tokens the other ranks had.
  const struct sent_whole sent = {&ep->streams.flow.answers, ep->options.max_tokens, "answers to", "weft_ep_combine"};
  int rc = check_fits(ep, c->halves, &sent, why);
  return rc ? rc : cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
}

// A combine with a route is an operation of its own, whose headers announce no rows.
static int launch_begin(struct device_ep *ep, const struct device_flow_combine *f, uint32_t topk, void *stream,
                        char *why) {
  const struct cuda_open_op *open = begin_open_op(ep, f->place, f->route);
  const struct device_flow_dispatch begin = {.d = {.halves = DEVICE_SEND | DEVICE_RECV,
                                                   .kind = 1,
                                                   .masked = f->masked,
                                                   .replays = f->replays,
                                                   .rank_major = f->c.rank_major}};
  struct cuda_control_args control = {
      .form = cuda_flow_form(0, topk, 0, 0),
      .topk = topk,
      .keeps = true,
      .no_rows = true,
      .layout = WEFT_EP_RANK_MAJOR,
      .alignment = 1,
  };
  return launch_control(ep, &begin, open, f->route, &control, stream, why);
}

// Whether `size` bytes lie in this rank's zero-copy memory.
static bool is_zero_copy(const struct device_ep *ep, const void *memory, uint64_t size) {
  uint64_t from = (uintptr_t)memory - (uintptr_t)ep->options.zero_copy, bytes = ep->options.zero_copy_bytes;
  return memory && from < bytes && bytes - from >= size;
}

// Only a launch that sends and receives keeps the rows in place until they have been read. The offsets that are
// published to readers limit the size of the memory.
static struct cuda_zero_copy zero_copy_of(const struct device_ep *ep, const struct device_flow_combine *f,
                                          uint32_t topk, bool coded) {
  bool lie = ep->options.zero_copy_bytes <= (uint64_t)CUDA_NOT_IN_PLACE * CUDA_PLACE_WORD && f->c.rank_major &&
             !coded && f->c.halves == (DEVICE_SEND | DEVICE_RECV) &&
             is_zero_copy(ep, f->c.y, (uint64_t)f->rows * 2 * ep->options.hidden) &&
             (!f->row_weights || is_zero_copy(ep, f->row_weights, (uint64_t)f->rows * topk * sizeof *f->row_weights));
  return (struct cuda_zero_copy){ep->options.zero_copy, ep->options.zero_copy_bytes, lie};
}

static int launch_answers(struct device_ep *ep, const struct device_flow_combine *f, const struct cuda_open_op *open,
                          uint32_t topk, void *stream, char *why) {
  const struct device_combine *c = &f->c;
  bool coded = (c->dtype ? c->dtype : ep->options.combine_dtype) == CUDA_COMBINE_LOGFMT10;
  bool by_expert = !f->packed && !c->rank_major; // so many rows for each expert
  const struct cuda_answers_args args = {.state = ep->state,
                                         .route = routing_of(open, f->route)->arrays,
                                         .op = open->op,
                                         .flow = ep->streams.flow,
                                         .topk = topk,
                                         .ranks = __atomic_load_n(&ep->ranks, __ATOMIC_RELAXED),
                                         .halves = c->halves,
                                         .rank_major = c->rank_major,
                                         .unweighted = f->unweighted,
                                         .renormalize = c->renormalize,
                                         .narrow = c->narrow,
                                         .coded = coded,
                                         .rows = f->rows * (by_expert ? ep->options.experts_per_rank : 1),
                                         .y = c->y,
                                         .topk_idx = c->topk_idx,
                                         .topk_weights = c->topk_weights,
                                         .row_weights = f->row_weights,
                                         .bias = {f->bias[0], f->bias[1]},
                                         .out = c->out,
                                         .out_weights = f->out_weights,
                                         .missing = open->missing,
                                         .zero_copy = zero_copy_of(ep, f, topk, coded)};
  const struct cuda_end_args end = {.state = ep->state,
                                    .layout = ep->layout,
                                    .route = routing_of(open, f->route)->route,
                                    .op = open->op,
                                    .missing = open->missing,
                                    .halves = c->halves,
                                    .topk = topk,
                                    .keeps = c->keeps,
                                    .rank_major = c->rank_major};
  int rc = cuda_launched(ep, cuda_launch_answers(&args, blocks(ep, c->processors), cuda_early(ep), stream), stream,
                         "cannot launch the answers of a combine", why);
  return rc ? rc
            : cuda_launched(ep, cuda_launch_end(&end, cuda_early(ep), stream), stream, "cannot end a combine", why);
}

int cuda_flow_combine(struct device_ep *ep, const struct device_flow_combine *f, void *stream, char *why) {
  const struct cuda_open_op *open = &ep->streams.open_ops[f->place % EP_DEPTH];
  uint32_t topk = f->c.topk ? f->c.topk : ep->options.topk;
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  uint64_t before = ep->last_launch;
  rc = check_combine(ep, f, why);
  if (rc == 0 && f->begins)
    rc = cuda_check_route(f->route, why);
  if (rc == 0 && f->begins)
    rc = launch_begin(ep, f, topk, stream, why);
  if (rc == 0)
    rc = launch_answers(ep, f, open, topk, stream, why);
  rc = cuda_launched_all(ep, before, NULL, rc, stream, why);
  cuda_leave(&guard);
  return rc;
}
