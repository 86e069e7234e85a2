// CHECK_ROUTE on CUDA memory: checks that the top-k of a call are those of its route. The device compares them in the
// caller's stream, and the call waits for the result: the flag is for debugging.
#include "base/fail.h"
#include "ep/gpu/call/call.h"

static bool checks(const struct weft_ep_dispatch_args *args) {
  return args->flags & WEFT_EP_DISPATCH_CHECK_ROUTE;
}

bool ep_gpu_route_fills(const struct weft_ep_dispatch_args *args) {
  bool given = args->topk_idx || args->topk_idx32;
  return given && !(checks(args) && args->route->gpu->filled);
}

int ep_gpu_route_check_known(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  if (!checks(args))
    return 0;
  const struct gpu_route *its = args->route->gpu;
  if (!its->planned)
    return fail(WEFT_ERR_INVALID, "dispatch: CHECK_ROUTE is set, but the route has no top-k: plan or fill it first");
  if (args->num_tokens_at)
    return fail(WEFT_ERR_INVALID,
                "dispatch: num_tokens_at is given, but the route has the number of tokens: leave num_tokens_at NULL");
  if (args->num_tokens != its->num_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, and those of the route are %u", args->num_tokens,
                its->num_tokens);
  uint32_t topk = args->topk ? args->topk : its->filled ? its->topk : ep->layout.topk;
  if (topk != its->topk)
    return fail(WEFT_ERR_INVALID, "dispatch: topk is %u, and that of the route is %u", topk, its->topk);
  return 0;
}

static int find_difference(weft_ep_t *ep, const struct gpu_route *its, const struct device_compare *compare,
                           void *stream, struct device_difference *difference) {
  char why[DEVICE_WHY] = "";
  int rc = its->api->route_compare(ep->gpu->engine, its->memory, compare, stream, why);
  if (rc == 0)
    rc = ep_gpu_await_stream(ep, stream, ep_gpu_wait_limit_ms(ep), why);
  if (rc == 0)
    rc = its->api->route_difference(its->memory, compare, difference, why);
  return rc == 0 ? 0 : fail(rc, "dispatch: CHECK_ROUTE: %s", why);
}

int ep_gpu_route_compare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool captures) {
  if (!checks(args))
    return 0;
  if (captures)
    return fail(WEFT_ERR_INVALID, "dispatch: CHECK_ROUTE waits for the stream, which is being captured and does not "
                                  "run: check before the capture");
  const struct gpu_route *its = args->route->gpu;
  bool narrow = args->topk_idx32 != NULL;
  const struct device_compare compare = {.topk_idx = narrow ? (const void *)args->topk_idx32 : args->topk_idx,
                                         .narrow = narrow,
                                         .kept_narrow = its->narrow,
                                         .num_tokens = its->num_tokens,
                                         .topk = its->topk};
  struct device_difference is = {.differs = false};
  int rc = find_difference(ep, its, &compare, args->stream, &is);
  if (rc != 0 || !is.differs)
    return rc;
  return fail(WEFT_ERR_INVALID, "dispatch: topk_idx[%llu][%llu] is %lld, but the route was made with %lld",
              (unsigned long long)is.at / its->topk, (unsigned long long)is.at % its->topk, (long long)is.given,
              (long long)is.kept);
}
