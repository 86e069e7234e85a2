// Checks whether the selections of a call are the selections of a route. A search is launched; its result is copied
// after the stream has run.
#include "cuda/engine/engine.h"

static size_t size_of(bool narrow) {
  return narrow ? sizeof(int32_t) : sizeof(int64_t);
}

int cuda_route_compare(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why) {
  const struct cuda_argument list[] = {{compare->narrow ? "topk_idx32" : "topk_idx", compare->topk_idx,
                                        (uint32_t)size_of(compare->narrow), compare->num_tokens > 0}};
  const struct cuda_compare_args args = {.route = route->routing.route,
                                         .given = compare->topk_idx,
                                         .kept = route->topk_idx,
                                         .narrow = compare->narrow,
                                         .kept_narrow = compare->kept_narrow,
                                         .num_tokens = compare->num_tokens,
                                         .topk = compare->topk,
                                         .first = route->first};
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  uint32_t blocks = ep->blocks < EP_PROCESSORS ? ep->blocks : EP_PROCESSORS;
  rc = cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
  if (rc == 0)
    rc = cuda_check_route(route, why);
  if (rc == 0)
    rc = cuda_check(why, cudaMemsetAsync(route->first, 0xFF, sizeof *route->first, stream),
                    "cannot prepare to compare with a route");
  if (rc == 0)
    rc = cuda_launched(ep, cuda_launch_compare(&args, blocks, false, stream), stream, "cannot compare with a route",
                       why);
  cuda_leave(&guard);
  return rc;
}

static int copy_selection(struct device *device, const void *list, bool narrow, uint64_t at, int64_t *is, char *why) {
  int32_t small = 0;
  void *to = narrow ? (void *)&small : is;
  int rc = cuda_copy(device, to, (const char *)list + at * size_of(narrow), size_of(narrow), device->stream, true, why);
  if (rc == 0 && narrow)
    *is = small;
  return rc;
}

int cuda_route_difference(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why) {
  struct device *device = route->device;
  struct device_difference is = {.differs = true};
  int rc = cuda_copy(device, &is.at, route->first, sizeof is.at, device->stream, true, why);
  if (rc == 0 && is.at == UINT64_MAX)
    is = (struct device_difference){.differs = false};
  if (rc == 0 && is.differs)
    rc = copy_selection(device, compare->topk_idx, compare->narrow, is.at, &is.given, why);
  if (rc == 0 && is.differs)
    rc = copy_selection(device, route->topk_idx, compare->kept_narrow, is.at, &is.kept, why);
  if (rc == 0)
    *difference = is;
  return rc;
}
