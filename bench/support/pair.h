// Two ranks that found a group.
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <weft/weft.h>

// Options of rank 0 or 1 of a group of both; what the group is for is to be filled in.
static inline struct weft_ep_options bench_pair_options(weft_store_t *store, const char *prefix, int rank) {
  static const int32_t founders[] = {0, 1};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.prefix = prefix;
  options.rank = rank;
  options.capacity = 2;
  options.founders = founders;
  options.num_founders = 2;
  return options;
}

#endif
