// The routes of weft/ep.h: their lifetime relative to their group, and the checks of arguments that need no engine.
#include <stdlib.h>

#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/core/engine.h"
#include "ep/core/route.h"

// --- its life ---

static int check_option(const char *name, uint32_t value, uint32_t most, const char *of) {
  if (value <= most)
    return 0;
  return fail(WEFT_ERR_INVALID, "route_create: %s is %u; it is %u at most, %s", name, value, most, of);
}

// Fills in the defaults and checks every field.
static int complete(const weft_ep_t *ep, struct weft_ep_route_options *options) {
  const struct ep_layout *group = &ep->layout;
  int rc = ep_check_flags("route_create", options->flags, 0, options->reserved);
  if (rc == 0)
    rc = check_option("max_tokens", options->max_tokens, group->max_tokens, "as the group was opened");
  if (rc == 0)
    rc = check_option("topk", options->topk, group->topk, "as the group was opened");
  if (rc == 0)
    rc = check_option("alignment", options->alignment, EP_MAX_ALIGNMENT, "and 1 by default");
  if (rc != 0)
    return rc;
  options->max_tokens = options->max_tokens ? options->max_tokens : group->max_tokens;
  options->topk = options->topk ? options->topk : group->topk;
  options->alignment = options->alignment ? options->alignment : 1;
  // All selections of all rows, and the room between the parts of experts, have row numbers.
  uint32_t most = ((uint32_t)INT32_MAX - EP_MAX_EXPERTS * EP_MAX_ALIGNMENT) / options->topk;
  uint64_t all = (uint64_t)group->max_tokens * ep->capacity;
  if (options->max_rows > most)
    return fail(WEFT_ERR_INVALID, "route_create: max_rows is %u; with top-%u want at most %u, which can be numbered",
                options->max_rows, options->topk, most);
  if (options->max_rows == 0 || options->max_rows > all)
    options->max_rows = all < most ? (uint32_t)all : most;
  return 0;
}

int weft_ep_route_create(weft_ep_t *ep, const struct weft_ep_route_options *given, weft_ep_route_t **out) {
  struct weft_ep_route_options copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "route_create");
  if (!out)
    return fail(WEFT_ERR_INVALID, "route_create: route is NULL");
  const struct weft_ep_route_options *read = EP_READ_ROUTE_OPTIONS(given, &copy);
  if (!read)
    return sized_refusal(given, sizeof copy);
  struct weft_ep_route_options options = *read;
  int rc = complete(ep, &options);
  if (rc == 0 && !ep->engine->route_create)
    rc = ep_unsupported("route_create", "a route on CUDA memory",
                        "give src_rank, src_token and range to the receive, and combine with the operation itself");
  if (rc != 0)
    return rc;
  weft_ep_route_t *route = calloc(1, sizeof *route);
  if (!route)
    return fail(WEFT_ERR_NOMEM, "route_create: no memory");
  *route = (weft_ep_route_t){.ep = ep, .opened = ep->opened, .engine = ep->engine};
  rc = ep->engine->route_create(ep, &options, route);
  if (rc != 0) {
    free(route);
    return rc;
  }
  route->next = ep->routes;
  ep->routes = route;
  *out = route;
  return 0;
}

void weft_ep_route_free(weft_ep_route_t *route) {
  if (!route)
    return;
  bool is_listed = route->ep && !forked_since(route->opened);
  if (is_listed && route->users > 0)
    route->freed = true; // the last operation that needs it frees it when it ends
  else
    ep_route_destroy(route, is_listed);
}

// --- what it knows ---

int weft_ep_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream) {
  int rc = ep_route_check(route, "route_plan");
  if (rc == 0 && !topk_idx && num_tokens > 0)
    rc = fail(WEFT_ERR_INVALID, "route_plan: %u tokens, but topk_idx is NULL", num_tokens);
  return rc != 0 ? rc : route->engine->route_plan(route, topk_idx, num_tokens, stream);
}

int weft_ep_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays) {
  struct weft_ep_route_arrays copy;
  int rc = ep_route_check(route, "route_get_arrays");
  if (rc == 0 && !arrays)
    rc = fail(WEFT_ERR_INVALID, "route_get_arrays: arrays is NULL");
  struct weft_ep_route_arrays *out = rc == 0 ? EP_OUTPUT_ROUTE_ARRAYS(arrays, &copy, &rc) : NULL;
  if (rc == 0)
    rc = route->engine->route_get_arrays(route, out);
  if (rc == 0)
    ep_output_end(arrays, out, sizeof *out);
  return rc;
}

int weft_ep_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms) {
  struct weft_ep_route_info copy, ignored = WEFT_EP_ROUTE_INFO_INIT;
  int rc = ep_route_check(route, "route_await");
  info = info ? info : &ignored;
  struct weft_ep_route_info *out = rc == 0 ? EP_OUTPUT_ROUTE_INFO(info, &copy, &rc) : NULL;
  if (rc == 0)
    rc = route->engine->route_await(route, out, timeout_ms);
  if (out)
    ep_output_end(info, out, sizeof *out);
  return rc;
}
