// Routes of weft/ep.h: declared, and not made yet. No call but the first gets as far as a route.
#include "base/fail.h"
#include "ep/core/args.h"

static int no_route(const char *call) {
  return fail(WEFT_ERR_INVALID, "%s: route is NULL: weft_ep_route_create makes one", call);
}

int weft_ep_route_create(weft_ep_t *ep, const struct weft_ep_route_options *given, weft_ep_route_t **route) {
  struct weft_ep_route_options copy;
  const struct weft_ep_route_options *options = EP_READ_ROUTE_OPTIONS(given, &copy);
  if (!ep || !route)
    return fail(WEFT_ERR_INVALID, "route_create: %s is NULL", ep ? "route" : "ep");
  if (!options)
    return sized_refusal(given, sizeof copy);
  int rc = ep_check_flags("route_create", options->flags, 0, options->reserved);
  return rc != 0 ? rc
                 : ep_unsupported("route_create", "a route",
                                  "give src_rank, src_token and range to the receive, and "
                                  "combine the operation itself");
}

void weft_ep_route_free(weft_ep_route_t *route) {
  (void)route;
}

int weft_ep_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream) {
  (void)route, (void)topk_idx, (void)num_tokens, (void)stream;
  return no_route("route_plan");
}

int weft_ep_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays) {
  (void)route, (void)arrays;
  return no_route("route_get_arrays");
}

int weft_ep_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms) {
  (void)route, (void)info, (void)timeout_ms;
  return no_route("route_await");
}

int weft_ep_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                          struct weft_ep_result *result, uint64_t *op) {
  (void)ep, (void)route, (void)args, (void)result, (void)op;
  return no_route("combine_route");
}
