// Routes on CUDA memory, in groups for throughput. The plug-in has the contents of a route; this file has its state, as
// the launches so far determine it.
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/gpu/call/op.h"
#include "ep/view/views.h"
#include "group/view.h"

int ep_gpu_route_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  if (!ep_gpu_flows(ep))
    return ep_unsupported("route_create", "a route in a group for LATENCY on CUDA memory",
                          "open the group for THROUGHPUT");
  struct gpu_route *its = calloc(1, sizeof *its);
  if (!its)
    return fail(WEFT_ERR_NOMEM, "route_create: no memory");
  *its = (struct gpu_route){.api = gpu->api, .options = *options};
  const struct device_route_options wanted = {.max_tokens = options->max_tokens,
                                              .max_rows = options->max_rows,
                                              .topk = options->topk,
                                              .alignment = options->alignment};
  int rc = gpu->api->open(gpu->index, &its->device, why);
  if (rc == 0)
    rc = gpu->api->route_create(its->device, &gpu->options, &wanted, &its->memory, why);
  if (rc == 0) {
    route->gpu = its;
    return 0;
  }
  if (its->device)
    gpu->api->close(its->device);
  free(its);
  return device_fail(rc, "a route on the GPU", why);
}

void ep_gpu_route_free(weft_ep_route_t *route) {
  struct gpu_route *its = route->gpu;
  if (!its)
    return;
  its->api->route_free(its->memory);
  its->api->close(its->device);
  free(its);
  route->gpu = NULL;
}

// --- filling it, and going by it ---

static int check_fill(const struct gpu_route *route, const struct weft_ep_dispatch_args *args, uint32_t topk) {
  if (args->num_tokens > route->options.max_tokens)
    return fail(WEFT_ERR_ROOM, "dispatch: %u tokens, but the route has room for %u", args->num_tokens,
                route->options.max_tokens);
  if (topk > route->options.topk)
    return fail(WEFT_ERR_INVALID, "dispatch: topk is %u, but the route has room for %u", topk, route->options.topk);
  return 0;
}

static int check_kept(const struct gpu_route *route, const struct weft_ep_dispatch_args *args) {
  if (!route->filled)
    return fail(WEFT_ERR_INVALID, "dispatch: topk_idx is NULL, and no dispatch has filled the route");
  if (args->topk_weights)
    return fail(WEFT_ERR_INVALID,
                "dispatch: topk_weights are given, but the route has kept those that it was filled with");
  if (args->num_tokens_at)
    return fail(WEFT_ERR_INVALID,
                "dispatch: num_tokens_at is given, but the route has the number of tokens: leave num_tokens_at NULL");
  if (args->num_tokens != route->num_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, but the route was filled by a dispatch of %u", args->num_tokens,
                route->num_tokens);
  if (args->topk && args->topk != route->topk)
    return fail(WEFT_ERR_INVALID, "dispatch: topk is %u, but the route was filled with top-%u", args->topk,
                route->topk);
  return 0;
}

int ep_gpu_route_check(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  if (!args->route)
    return 0;
  int rc = ep_gpu_route_check_known(ep, args);
  if (rc != 0)
    return rc;
  return ep_gpu_route_fills(args) ? check_fill(args->route->gpu, args, args->topk ? args->topk : ep->layout.topk)
                                  : check_kept(args->route->gpu, args);
}

// For rows by expert the route has only the places of the first receive.
int ep_gpu_route_check_recv(const weft_ep_route_t *kept, const struct weft_ep_recv_args *recv) {
  const struct gpu_route *route = kept ? kept->gpu : NULL;
  if (!route || recv->layout == WEFT_EP_RANK_MAJOR)
    return 0;
  bool packed = recv->layout == WEFT_EP_PACKED;
  if (!route->rank_major && packed == route->packed && recv->rows == route->rows &&
      (!packed || (recv->alignment ? recv->alignment : 1) == route->alignment))
    return 0;
  return ep_unsupported("dispatch",
                        "on CUDA memory a receive by expert whose layout, rows or alignment differ from the receive "
                        "that filled the route",
                        "receive as when the route was filled, or RANK_MAJOR");
}

void ep_gpu_route_follow(struct gpu_op *op) {
  const struct gpu_route *its = op->route->gpu;
  its->api->route_selections(its->memory, &op->topk_idx, &op->topk_weights);
  op->num_tokens = its->num_tokens;
  op->topk = its->topk;
  op->has_weights = its->has_weights;
  op->narrow = its->narrow;
}

void ep_gpu_route_filled(weft_ep_route_t *route, const struct gpu_op *op) {
  struct gpu_route *its = route->gpu;
  its->planned = its->filled = true;
  its->num_tokens = op->num_tokens;
  its->topk = op->topk;
  its->has_weights = op->has_weights;
  its->narrow = op->narrow;
  its->rank_major = op->rank_major;
  its->packed = op->packed;
  its->rows = op->rows;
  its->alignment = op->alignment;
  its->stream = op->stream;
}

int ep_gpu_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream) {
  weft_ep_t *ep = route->ep;
  struct gpu_route *its = route->gpu;
  char why[DEVICE_WHY] = "";
  int rc = ep_check_active(ep);
  if (rc != 0)
    return rc;
  if (num_tokens > its->options.max_tokens)
    return fail(WEFT_ERR_ROOM, "route_plan: %u tokens, but the route has room for %u", num_tokens,
                its->options.max_tokens);
  rc = its->api->route_plan(ep->gpu->engine, its->memory, topk_idx, false, num_tokens, atomic_load(&ep->gpu->masked),
                            stream, why);
  if (rc != 0)
    return fail(rc, "route_plan: %s", why);
  its->planned = true;
  its->filled = its->narrow = false;
  its->num_tokens = num_tokens;
  its->topk = its->options.topk;
  return 0;
}

// --- what it knows ---

int ep_gpu_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays) {
  route->gpu->api->route_arrays(route->gpu->memory, arrays);
  return 0;
}

// Checks that the view of the next operation has no rank that the view of the filling operation had not.
static int check_joined(weft_ep_t *ep, uint64_t epoch) {
  ep_gpu_follow(ep);
  const struct group_view *then = ep_gpu_view(ep, epoch);
  int32_t joined = -1;
  for (uint32_t i = 0; then && ep->view && joined < 0 && i < ep->view->count; i++) {
    const struct group_member *member = &ep->view->members[i];
    if (!group_view_has(then, member->rank, member->incarnation))
      joined = member->rank;
  }
  group_view_unref(then);
  if (joined < 0)
    return 0;
  return fail(WEFT_ERR_CONFLICT,
              "route_await: rank %d joined after the route was filled, and the route does not have it", joined);
}

int ep_gpu_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms) {
  weft_ep_t *ep = route->ep;
  struct gpu_route *its = route->gpu;
  struct device_route_counts counts;
  char why[DEVICE_WHY] = "";
  if (!its->filled)
    return fail(WEFT_ERR_INVALID, "route_await: no dispatch is filling the route");
  int rc = ep_gpu_await_stream(ep, its->stream, timeout_ms, why);
  uint32_t cap = info->expert_cap < ep->experts_per_rank ? info->expert_cap : ep->experts_per_rank;
  if (rc == 0)
    rc = its->api->route_counts(its->memory, &counts, info->expert_rows, info->expert_rows ? cap : 0, why);
  if (rc != 0)
    return fail(rc, "route_await: %s", why);
  info->op = counts.op;
  info->epoch = counts.epoch;
  info->num_experts = ep->experts_per_rank;
  info->num_rows = counts.num_rows;
  info->packed_rows = counts.packed_rows;
  info->num_ranks = counts.num_ranks;
  info->num_lost = counts.num_lost;
  if (counts.num_rows > its->options.max_rows)
    return fail(WEFT_ERR_ROOM, "route_await: %u rows arrived, but the route has room for %u", counts.num_rows,
                its->options.max_rows);
  return check_joined(ep, counts.epoch);
}
