// Routes of the fake plug-in: they know which operation filled them, and its selections, but nothing else about tokens.
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
  route->kept = calloc((size_t)options->max_tokens * options->topk, sizeof *route->kept);
  *out = route;
  return 0;
}

void fake_route_free(struct device_route *route) {
  if (!route)
    return;
  pthread_mutex_destroy(&route->lock);
  free(route->lists);
  free(route->kept);
  free(route);
}

static int64_t selection(const void *list, bool narrow, uint32_t at) {
  return narrow ? ((const int32_t *)list)[at] : ((const int64_t *)list)[at];
}

void fake_route_keep(struct device_route *route, const void *topk_idx, bool narrow, uint32_t count) {
  route->num_kept = count;
  for (uint32_t i = 0; i < count; i++)
    route->kept[i] = selection(topk_idx, narrow, i);
}

int fake_route_compare(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why) {
  uint32_t count = compare->num_tokens * compare->topk;
  (void)ep, (void)stream;
  if (count != route->num_kept)
    return fake_say(why, WEFT_ERR_INVALID, "the route of the fake knows another number of selections");
  route->difference = (struct device_difference){.differs = false};
  for (uint32_t i = 0; i < count && !route->difference.differs; i++) {
    int64_t given = selection(compare->topk_idx, compare->narrow, i);
    if (given != route->kept[i])
      route->difference = (struct device_difference){.differs = true, .at = i, .given = given, .kept = route->kept[i]};
  }
  return 0;
}

int fake_route_difference(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why) {
  (void)compare, (void)why;
  *difference = route->difference;
  return 0;
}

int fake_route_plan(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why) {
  (void)ep, (void)masked, (void)stream, (void)why;
  fake_route_keep(route, topk_idx, narrow, num_tokens * route->options.topk);
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
