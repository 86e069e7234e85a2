// Ranks that found a group together.
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <weft/weft.h>

enum { BENCH_MAX_FOUNDERS = 8 };
static const int32_t bench_founders[BENCH_MAX_FOUNDERS] = {0, 1, 2, 3, 4, 5, 6, 7};

// Options of a rank of a group with `ranks` founders, at most BENCH_MAX_FOUNDERS. The caller fills in the rest.
static inline struct weft_ep_options bench_group_options(weft_store_t *store, const char *prefix, int rank,
                                                         uint32_t ranks) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.prefix = prefix;
  options.rank = rank;
  options.capacity = ranks;
  options.founders = bench_founders;
  options.num_founders = ranks;
  return options;
}

// Options of rank 0 or 1 of a group of two.
static inline struct weft_ep_options bench_pair_options(weft_store_t *store, const char *prefix, int rank) {
  return bench_group_options(store, prefix, rank, 2);
}

#endif
