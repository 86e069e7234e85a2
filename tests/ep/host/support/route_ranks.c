// Ranks of tests of routes.
#include "ep/host/support/route_ranks.h"

struct setup route_setup(weft_store_t *store, const char *prefix, struct setup setup) {
  setup.store = store;
  setup.prefix = prefix;
  setup.capacity = CAPACITY;
  setup.tokens = TOKENS;
  setup.hidden = HIDDEN;
  setup.topk = TOPK;
  setup.experts = EXPERTS;
  return setup;
}

void route_ranks_run(weft_store_t *store, const char *prefix, struct setup setup, rank_body body, void *arg) {
  static const int32_t ranks[RANKS] = {0, 1, 2};
  setup = route_setup(store, prefix, setup);
  ranks_run(&setup, ranks, RANKS, body, arg);
}

weft_ep_route_t *route_make(struct rank *rank, uint32_t alignment) {
  weft_ep_route_t *route = NULL;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.alignment = alignment;
  if (weft_ep_route_create(rank->ep, &options, &route) != 0)
    rank_fail(rank, "route_create: %s", weft_last_error());
  return route;
}

bool draw_goes(const struct draw *draw, uint32_t from, uint32_t token, uint32_t to) {
  for (uint32_t k = 0; k < draw->topk; k++) {
    int64_t expert = draw->topk_idx[from][token * draw->topk + k];
    if (expert >= 0 && expert / EXPERTS == to)
      return true;
  }
  return false;
}
