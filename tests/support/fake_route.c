// Routes of the plug-in of the tests: they know which operation filled them, and of no tokens.
#include <stdlib.h>
#include <string.h>

#include <weft/ep.h>
#include <weft/err.h>

#include "support/fake_device.h"

int fake_route_create(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **out, char *why) {
  struct device_route *route = calloc(1, sizeof *route);
  (void)device;
  if (!route || getenv("FAKE_NO_ROUTE")) {
    free(route);
    return fake_say(why, WEFT_ERR_NOMEM, "the fake has no memory for a route");
  }
  pthread_mutex_init(&route->lock, NULL);
  route->options = *options;
  route->capacity = ep->capacity;
  route->experts = ep->experts_per_rank;
  route->lists = calloc(ep->capacity * ep->experts_per_rank + ep->capacity, sizeof(int32_t));
  *out = route;
  return 0;
}

void fake_route_free(struct device_route *route) {
  if (!route)
    return;
  pthread_mutex_destroy(&route->lock);
  free(route->lists);
  free(route);
}

int fake_route_plan(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why) {
  (void)ep, (void)topk_idx, (void)narrow, (void)num_tokens, (void)masked, (void)stream, (void)why;
  pthread_mutex_lock(&route->lock);
  route->filled = 0;
  pthread_mutex_unlock(&route->lock);
  return 0;
}

void fake_route_arrays(const struct device_route *route, struct weft_ep_route_arrays *arrays) {
  arrays->tokens_per_rank = route->lists;
  arrays->tokens_per_expert = (const int32_t *)route->lists + route->capacity;
}

void fake_route_selections(const struct device_route *route, const void **topk_idx, const float **weights) {
  (void)route;
  *topk_idx = NULL;
  *weights = NULL;
}

int fake_route_counts(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why) {
  pthread_mutex_lock(&route->lock);
  bool filled = route->filled > 0;
  *counts = route->counts;
  pthread_mutex_unlock(&route->lock);
  for (uint32_t e = 0; e < cap; e++)
    expert_rows[e] = (int32_t)e;
  return filled ? 0 : fake_say(why, WEFT_ERR_NOT_FOUND, "no dispatch has filled it");
}
