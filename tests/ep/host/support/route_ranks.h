// Three ranks that stay, one place more than they take, and their routes: for tests of what operations by a route do.
#ifndef TESTS_EP_ROUTE_RANKS_H
#define TESTS_EP_ROUTE_RANKS_H

#include "ep/support/routes.h"

enum { RANKS = 3, CAPACITY = 4, TOKENS = 6, HIDDEN = 256, TOPK = 4, EXPERTS = 3 };

// Of these sizes. `prefix` is the test's own.
struct setup route_setup(weft_store_t *store, const char *prefix, struct setup setup);
// ranks_run() of all three.
void route_ranks_run(weft_store_t *store, const char *prefix, struct setup setup, rank_body body, void *arg);

// NULL: rank->error says why.
weft_ep_route_t *route_make(struct rank *rank, uint32_t alignment);

// Whether a token of rank `from` goes to rank `to`.
bool draw_goes(const struct draw *draw, uint32_t from, uint32_t token, uint32_t to);

#endif
