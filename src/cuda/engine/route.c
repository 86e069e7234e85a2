// Routes that a caller keeps: their memory on the device, and the data that the caller reads from them.
#include "cuda/engine/engine.h"

#include <stdlib.h>

static uint64_t aligned(uint64_t size) {
  return (size + CUDA_LINE - 1) / CUDA_LINE * CUDA_LINE;
}

static void *cut(char *base, uint64_t *at, uint64_t size) {
  void *piece = base + *at;
  *at += aligned(size);
  return piece;
}

// Places the route's parts in one piece of memory at `base`; returns its size.
static uint64_t place(struct device_route *route, char *base) {
  const struct device_route_options *o = &route->options;
  struct cuda_route_lists *l = &route->lists;
  uint64_t experts = route->flow.experts, rows = o->max_rows;
  uint64_t at = aligned(cuda_place_routing(&route->routing, &route->flow, o->max_tokens, o->max_rows, o->topk, base));
  route->filled = cut(base, &at, sizeof *route->filled);
  route->counts = cut(base, &at, DEVICE_SEATS * experts * sizeof *route->counts);
  l->tokens_per_rank = cut(base, &at, route->capacity * sizeof *l->tokens_per_rank);
  l->tokens_per_expert = cut(base, &at, route->capacity * experts * sizeof *l->tokens_per_expert);
  l->in_rank = cut(base, &at, (uint64_t)o->max_tokens * route->capacity);
  l->rank_end = cut(base, &at, route->capacity * sizeof *l->rank_end);
  l->expert_end = cut(base, &at, experts * sizeof *l->expert_end);
  l->src_rank = cut(base, &at, rows * sizeof *l->src_rank);
  l->src_token = cut(base, &at, rows * sizeof *l->src_token);
  l->slot = cut(base, &at, rows * o->topk * sizeof *l->slot);
  route->topk_idx = cut(base, &at, (uint64_t)o->max_tokens * o->topk * sizeof(int64_t));
  route->weights = cut(base, &at, (uint64_t)o->max_tokens * o->topk * sizeof *route->weights);
  route->first = cut(base, &at, sizeof *route->first);
  return at;
}

int cuda_route_create(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **out, char *why) {
  struct device_route *route = calloc(1, sizeof *route);
  uint64_t offset;
  if (!route)
    return cuda_why(why, WEFT_ERR_NOMEM, "no memory for a route");
  route->device = device;
  route->options = *options;
  route->capacity = ep->capacity;
  cuda_flow_of(ep, &route->flow, &offset);
  int rc = cuda_allocate(device, place(route, NULL), &route->memory, why);
  if (rc == 0) {
    place(route, route->memory);
    rc = cuda_write_routing(device, &route->routing, why);
    if (rc == 0)
      rc = cuda_copy(device, &route->filled->counts, &route->counts, sizeof route->counts, device->stream, true, why);
  }
  if (rc == 0)
    *out = route;
  else
    cuda_route_free(route);
  return rc;
}

void cuda_route_free(struct device_route *route) {
  if (!route)
    return;
  cuda_release(route->device, route->memory);
  free(route);
}

void cuda_route_arrays(const struct device_route *route, struct weft_ep_route_arrays *arrays) {
  const struct cuda_route_lists *l = &route->lists;
  arrays->tokens_per_rank = l->tokens_per_rank;
  arrays->tokens_per_expert = l->tokens_per_expert;
  arrays->in_rank = l->in_rank;
  arrays->rank_end = l->rank_end;
  arrays->expert_end = l->expert_end;
  arrays->src_rank = l->src_rank;
  arrays->src_token = l->src_token;
  arrays->slot = l->slot;
}

void cuda_route_selections(const struct device_route *route, const void **topk_idx, const float **weights) {
  *topk_idx = route->topk_idx;
  *weights = route->weights;
}

// --- launches ---

// Pairs that do not arrive must have no token, place or expert.
static struct cuda_blank pairs_of(const struct device_route *route) {
  const struct cuda_route *r = &route->routing.arrays;
  return (struct cuda_blank){r->token, (uint64_t)((char *)r->weight - (char *)r->token), // token, place and expert
                             0xFFFFFFFF};
}

void cuda_route_blanks(const struct device_route *route, bool receives, struct cuda_blank blank[2]) {
  const struct cuda_route_lists *l = &route->lists;
  blank[0] = (struct cuda_blank){l->tokens_per_rank, (uint64_t)((char *)l->in_rank - (char *)l->tokens_per_rank), 0};
  if (receives)
    blank[1] = pairs_of(route);
}

int cuda_clear_route(const struct device_route *route, void *stream, char *why) {
  struct cuda_blank pairs = pairs_of(route);
  return cuda_check(why, cudaMemsetAsync(pairs.memory, (int)(pairs.word & 0xFF), pairs.bytes, stream),
                    "cannot clear a route");
}

int cuda_check_route(const struct device_route *route, char *why) {
  if (!route->half)
    return 0;
  return cuda_why(why, WEFT_ERR_INVALID,
                  "the route is incomplete, because the call that should make it failed: plan or fill it again");
}

static uint32_t list_blocks(const struct device_ep *ep) {
  return ep->blocks < EP_PROCESSORS ? ep->blocks : EP_PROCESSORS;
}

int cuda_launch_route_lists(struct device_ep *ep, const struct device_route *route, struct cuda_lists_args *args,
                            uint32_t blocks, void *stream, char *why) {
  args->state = ep->state;
  args->route = route->routing.route;
  args->lists = route->lists;
  args->capacity = route->capacity;
  args->experts = route->flow.experts;
  args->alignment = route->options.alignment;
  args->max_rows = route->options.max_rows;
  args->kept_idx = route->topk_idx;
  args->kept_weights = route->weights;
  return cuda_launched(ep, cuda_launch_lists(args, blocks, cuda_early(ep), stream), stream,
                       "cannot launch the lists of a route", why);
}

int cuda_route_plan(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why) {
  const struct cuda_argument list[] = {
      {"topk_idx", topk_idx, narrow ? sizeof(int32_t) : sizeof(int64_t), num_tokens > 0}};
  struct cuda_plan_args args = {.state = ep->state,
                                .route = route->routing.route,
                                .flow = ep->streams.flow,
                                .topk_idx = topk_idx,
                                .num_tokens = num_tokens,
                                .topk = route->options.topk,
                                .workspace = ep->streams.plan_workspace,
                                .masked = masked,
                                .members = ep->members,
                                .narrow = narrow};
  struct cuda_lists_args lists = {
      .halves = DEVICE_SEND, .topk = route->options.topk, .topk_idx = topk_idx, .narrow = narrow};
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  cuda_route_blanks(route, false, args.blank);
  rc = cuda_check_arguments(ep, list, 1, why);
  if (rc == 0) // no operation has filled the route any more
    rc = cuda_check(why, cudaMemsetAsync(&route->filled->op, 0, sizeof route->filled->op, stream),
                    "cannot clear a route");
  bool begun = rc == 0;
  if (rc == 0)
    rc = cuda_launched(ep, cuda_launch_plan(&args, list_blocks(ep), cuda_early(ep), stream), stream,
                       "cannot launch a plan", why);
  if (rc == 0)
    rc = cuda_launch_route_lists(ep, route, &lists, list_blocks(ep), stream, why);
  if (rc == 0)
    route->half = false;
  else if (begun && cuda_runs(stream)) // a plan is no operation, so only the route is unusable
    route->half = true;
  cuda_leave(&guard);
  return rc;
}

int cuda_route_counts(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why) {
  struct device *device = route->device;
  struct cuda_filled filled;
  int rc = cuda_check_route(route, why);
  if (rc == 0)
    rc = cuda_copy(device, &filled, route->filled, sizeof filled, device->stream, true, why);
  if (rc == 0 && filled.op == 0)
    rc = cuda_why(why, WEFT_ERR_NOT_FOUND, "no dispatch has filled the route");
  if (rc != 0)
    return rc;
  *counts = (struct device_route_counts){.op = filled.op - 1,
                                         .epoch = filled.epoch,
                                         .num_rows = filled.num_rows,
                                         .packed_rows = filled.packed_rows,
                                         .num_ranks = filled.num_ranks,
                                         .num_lost = (uint32_t)__builtin_popcountll(filled.lost)};
  for (uint32_t e = 0; e < cap; e++)
    expert_rows[e] = (int32_t)filled.totals[e];
  return 0;
}
