// Missing rows in operations by a route: rows of a masked rank, and rows of a rank that did not keep the route.
#include <string.h>

#include "cmocka_all.h"

#include "ep/core/engine.h"
#include "ep/host/host.h"
#include "ep/host/rows/rows.h"
#include "ep/host/support/route_ranks.h"
#include "support/local_store.h"

// Rank 0 masks rank 1 in a dispatch by the route: its rows are 0 there, in their places, and what it selected of rank
// 1 is missing. All other rows are as they were.
static void mask_one(struct rank *rank, void *arg) {
  enum weft_ep_layout layout = *(const enum weft_ep_layout *)arg;
  struct draw draw = {.seed = 9, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = layout, .dtype = WEFT_EP_FP8};
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  weft_ep_route_t *route = route_make(rank, 1);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
  args.route = route;
  draw_x(&rank->setup, 3, rank->index, rank->x);
  bool good = way_run(rank, &draw, &way, &args, 1, &first);
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  if (good && rank->index == 0)
    good = weft_ep_mask_update(rank->ep, 1, true) == 0;
  good = good && way_run(rank, &draw, &way, &args, 1, &second);
  if (good && rank->index == 0) {
    uint32_t missing = 0;
    for (uint32_t i = 0; i < TOKENS * TOPK; i++)
      missing += draw.topk_idx[0][i] >= 0 && draw.topk_idx[0][i] / EXPERTS == 1;
    if (second.result.num_missing != missing || missing == 0)
      rank_fail(rank, "%u selections are missing, should be %u", second.result.num_missing, missing);
    for (uint32_t i = 0; i < missing; i++)
      if (second.missing[i].expert / EXPERTS != 1)
        rank_fail(rank, "expert %lld is missing", (long long)second.missing[i].expert);
  }
  uint32_t parts = layout == WEFT_EP_RANK_MAJOR ? 1 : EXPERTS, absent = 0;
  for (uint32_t e = 0; good && rank->index == 1 && e < parts; e++) {
    uint32_t count = parts == 1 ? first.info.num_rows : (uint32_t)first.counts[e];
    for (size_t i = (size_t)e * first.recv.rows; count-- > 0; i++) {
      if (first.src_rank[i] != 0)
        continue;
      absent++;
      // What should stand there, so that the rest compares.
      memset(first.x + i * HIDDEN, 0, HIDDEN);
      memset(first.scales + i * (HIDDEN / 128), 0, HIDDEN / 128 * 4);
      first.src_token[i] = -1;
      for (uint32_t k = 0; parts == 1 && k < TOPK; k++) {
        first.local_expert[i * TOPK + k] = -1;
        first.weights[i * TOPK + k] = 0;
      }
    }
  }
  if (good && rank->index == 1 && absent == 0)
    rank_fail(rank, "rank 0 had sent nothing");
  if (good && rank->index == 1) { // it answers less
    second.result.wire_bytes = first.result.wire_bytes;
    brought_equal(rank, &first, &second, "masked");
  }
  if (good && rank->index == 2)
    brought_equal(rank, &first, &second, "not masked");
  // A mask does not matter to a combine by the route.
  way_answers(rank, 1, &second);
  struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &second);
  uint64_t op;
  if (good && (weft_ep_combine_route(rank->ep, route, &combine, &second.result, &op) != 0 ||
               second.result.num_missing != 0 || memcmp(first.out, second.out, (size_t)TOKENS * HIDDEN * 2) != 0))
    rank_fail(rank, "a combine by the route of a masked rank: %s", weft_last_error());
  if (good && rank->index == 0)
    weft_ep_mask_update(rank->ep, 1, false);
  good = good && !rank->error[0] && way_run(rank, &draw, &way, &args, 1, &second);
  if (good && second.result.num_missing != 0)
    rank_fail(rank, "%u selections are missing after the mask was lifted", second.result.num_missing);
  weft_ep_route_free(route);
  brought_free(&first);
  brought_free(&second);
  draw_free(&draw);
}

static void masked_ranks_keep_their_places(void **state) {
  (void)state;
  enum weft_ep_layout layouts[] = {WEFT_EP_RANK_MAJOR, WEFT_EP_PER_EXPERT};
  route_ranks_run(store, "/mask1/", (struct setup){.dtype = WEFT_EP_FP8}, mask_one, &layouts[0]);
  route_ranks_run(store, "/mask2/", (struct setup){.dtype = WEFT_EP_FP8}, mask_one, &layouts[1]);
}

// An operation before, whose rows had no room, left places that it has not filled.
static void leave_places(const weft_ep_t *ep) {
  for (uint32_t s = 0; s < CAPACITY; s++)
    for (uint32_t e = 0; e < EXPERTS; e++)
      ep_places_left(ep, s)[e] = 1, ep_places_next(ep, s)[e] = 0;
}

static bool has_rows_of(const struct brought *brought, int32_t rank) {
  for (uint32_t e = 0; e < EXPERTS; e++)
    for (size_t i = 0; i < (size_t)brought->counts[e]; i++)
      if (brought->src_rank[e * (size_t)brought->recv.rows + i] == rank)
        return true;
  return false;
}

// Rank 1 has nothing of rank 0's in its route, as if it had taken it for lost in the operation that filled it, behind
// its header or (`*arg`) before: rank 0 learns that from its header, and waits for no answer.
static void forget_one(struct rank *rank, void *arg) {
  bool before = *(const bool *)arg;
  struct draw draw = {.seed = 23, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_PER_EXPERT, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = route_make(rank, 1);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
  args.route = route;
  bool good = way_run(rank, &draw, &way, &args, 6, &brought);
  if (good && rank->index == 1) {
    route->kept->sources[0].rows = 0;
    route->kept->sources[0].came = !before;
  }
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  uint32_t missing = 0;
  for (uint32_t i = 0; i < TOKENS * TOPK && rank->index == 0; i++)
    missing += draw.topk_idx[0][i] >= 0 && draw.topk_idx[0][i] / EXPERTS == 1;
  for (int i = 0; i < 3 && good; i++) {
    leave_places(rank->ep);
    good = way_run(rank, &draw, &way, &args, 6, &brought);
    if (good && before && rank->index == 1 && has_rows_of(&brought, 0))
      good = rank_fail(rank, "rank 0 has rows, and no place in the route");
    if (good && (brought.result.num_missing != missing || brought.result.num_lost != 0))
      good = rank_fail(rank, "%u selections are missing, should be %u", brought.result.num_missing, missing);
    struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &brought);
    uint64_t op;
    if (good && (weft_ep_combine_route(rank->ep, route, &combine, &brought.result, &op) != 0 ||
                 brought.result.num_missing != missing || brought.result.num_lost != 0))
      good =
          rank_fail(rank, "by a combine %u selections are missing, should be %u", brought.result.num_missing, missing);
  }
  if (good && rank->index == 0 && missing == 0)
    rank_fail(rank, "rank 0 had sent nothing");
  weft_ep_route_free(route);
  brought_free(&brought);
  draw_free(&draw);
}

static void a_rank_that_kept_nothing_of_another_reports_this_to_it(void **state) {
  (void)state;
  bool before[] = {false, true};
  route_ranks_run(store, "/forgot1/", (struct setup){0}, forget_one, &before[0]);
  route_ranks_run(store, "/forgot2/", (struct setup){0}, forget_one, &before[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(masked_ranks_keep_their_places),
      cmocka_unit_test(a_rank_that_kept_nothing_of_another_reports_this_to_it),
  };
  return cmocka_run_group_tests_name("ep_route_missing", tests, open_store, close_store);
}
