// The arrays of a route, each against a plain computation. route.c tests operations by a route.
#include <string.h>

#include "cmocka_all.h"

#include "ep/host/support/route_ranks.h"
#include "support/local_store.h"

enum { DRAWS = 150 };

#define EXPECT(name, is, right)                                                                                        \
  do {                                                                                                                 \
    int64_t is_ = (int64_t)(is), right_ = (int64_t)(right);                                                            \
    if (is_ != right_)                                                                                                 \
      return rank_fail(rank, "%s is %lld, should be %lld", name, (long long)is_, (long long)right_);                   \
  } while (0)

static bool check_sent(struct rank *rank, const struct draw *draw, const struct weft_ep_route_arrays *arrays) {
  uint32_t self = (uint32_t)rank->index;
  for (uint32_t r = 0; r < CAPACITY; r++) {
    int32_t tokens = 0, selections[EXPERTS] = {0};
    for (uint32_t t = 0; t < draw->tokens[self]; t++) {
      bool there = draw_goes(draw, self, t, r);
      tokens += there;
      EXPECT("in_rank", arrays->in_rank[t * CAPACITY + r], there);
      for (uint32_t k = 0; k < draw->topk; k++) {
        int64_t expert = draw->topk_idx[self][t * draw->topk + k];
        if (expert >= 0 && expert / EXPERTS == r)
          selections[expert % EXPERTS]++;
      }
    }
    EXPECT("tokens_per_rank", arrays->tokens_per_rank[r], tokens);
    for (uint32_t e = 0; e < EXPERTS; e++)
      EXPECT("tokens_per_expert", arrays->tokens_per_expert[r * EXPERTS + e], selections[e]);
  }
  return true;
}

// Rows by source and token; the part of an expert begins where the one before ends, rounded up.
static bool check_came(struct rank *rank, const struct draw *draw, uint32_t alignment,
                       const struct weft_ep_route_arrays *arrays, const struct weft_ep_route_info *info) {
  uint32_t self = (uint32_t)rank->index, rows = 0, at[EXPERTS], counts[EXPERTS] = {0}, begin = 0;
  for (uint32_t r = 0; r < draw->count; r++)
    for (uint32_t i = 0; i < draw->tokens[r] * draw->topk; i++)
      if (draw->topk_idx[r][i] >= 0 && draw->topk_idx[r][i] / EXPERTS == self)
        counts[draw->topk_idx[r][i] % EXPERTS]++;
  for (uint32_t e = 0; e < EXPERTS; e++) {
    at[e] = begin;
    EXPECT("expert_end", arrays->expert_end[e], begin + counts[e]);
    EXPECT("expert_rows", info->expert_rows[e], counts[e]);
    begin = (begin + counts[e] + alignment - 1) / alignment * alignment;
  }
  EXPECT("packed_rows", info->packed_rows, begin);
  for (uint32_t r = 0; r < CAPACITY; r++) {
    for (uint32_t t = 0; r < draw->count && t < draw->tokens[r]; t++) {
      if (!draw_goes(draw, r, t, self))
        continue;
      EXPECT("src_rank", arrays->src_rank[rows], r);
      EXPECT("src_token", arrays->src_token[rows], t);
      for (uint32_t k = 0; k < draw->topk; k++) {
        int64_t expert = draw->topk_idx[r][t * draw->topk + k];
        bool here = expert >= 0 && expert / EXPERTS == self;
        EXPECT("slot", arrays->slot[rows * draw->topk + k], here ? (int64_t)at[expert % EXPERTS]++ : -1);
      }
      rows++;
    }
    EXPECT("rank_end", arrays->rank_end[r], rows);
  }
  EXPECT("num_rows", info->num_rows, rows);
  EXPECT("num_ranks", info->num_ranks, RANKS);
  EXPECT("num_lost", info->num_lost, 0);
  EXPECT("num_experts", info->num_experts, EXPERTS);
  return true;
}

// One route each for four alignments, filled again and again, each time with more or less than before.
static void compute_arrays(struct rank *rank, void *arg) {
  (void)arg;
  static const uint32_t alignments[] = {1, 3, 16, 256};
  weft_ep_route_t *routes[4];
  struct weft_ep_route_arrays arrays[4];
  struct brought brought;
  brought_new(&brought, &rank->setup);
  for (int i = 0; i < 4; i++) {
    routes[i] = route_make(rank, alignments[i]);
    arrays[i] = (struct weft_ep_route_arrays)WEFT_EP_ROUTE_ARRAYS_INIT;
    if (weft_ep_route_get_arrays(routes[i], &arrays[i]) != 0)
      rank_fail(rank, "%s", weft_last_error());
  }
  for (uint32_t i = 0; i < DRAWS && !rank->error[0]; i++) {
    struct draw draw = {.seed = i, .count = RANKS, .topk = i % 5 == 4 ? 2 : TOPK, .drop = (float)(i % 4) / 4};
    draw_make(&draw, &rank->setup);
    weft_ep_route_t *route = routes[i % 4];
    if (draw.topk == TOPK &&
        (weft_ep_route_plan(route, draw.topk_idx[rank->index], draw.tokens[rank->index], NULL) != 0 ||
         !check_sent(rank, &draw, &arrays[i % 4])))
      rank_fail(rank, "plan: %s", weft_last_error());
    struct route_way way = way_of((struct route_way){
        .layout = (enum weft_ep_layout)(1 + i % 3), .apart = i % 5 == 0, .alignment = alignments[i % 4]});
    struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
    args.route = route;
    int32_t expert_rows[EXPERTS];
    struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
    info.expert_rows = expert_rows;
    info.expert_cap = EXPERTS;
    uint64_t op = weft_ep_next_op(rank->ep);
    // A part of an expert, rounded up, needs more room than the buffers have.
    if (way.layout == WEFT_EP_PACKED && alignments[i % 4] > 16)
      way.layout = WEFT_EP_RANK_MAJOR;
    if (way_run(rank, &draw, &way, &args, i, &brought) && check_sent(rank, &draw, &arrays[i % 4])) {
      if (weft_ep_route_await(route, &info, 0) != 0 || info.op != op || info.epoch != brought.info.epoch)
        rank_fail(rank, "await of operation %llu: %s", (unsigned long long)info.op, weft_last_error());
      check_came(rank, &draw, alignments[i % 4], &arrays[i % 4], &info);
      if (way.layout == WEFT_EP_PACKED &&
          (memcmp(brought.slot, arrays[i % 4].slot, info.num_rows * draw.topk * sizeof *brought.slot) != 0 ||
           memcmp(brought.expert_end, arrays[i % 4].expert_end, EXPERTS * sizeof *brought.expert_end) != 0 ||
           brought.info.rows_needed != info.packed_rows))
        rank_fail(rank, "the slots of the receive are not those of the route");
    }
    draw_free(&draw);
  }
  for (int i = 0; i < 4; i++)
    weft_ep_route_free(routes[i]);
  brought_free(&brought);
}

static void each_array_is_that_of_a_plain_computation(void **state) {
  (void)state;
  route_ranks_run(store, "/arrays/", (struct setup){0}, compute_arrays, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_array_is_that_of_a_plain_computation),
  };
  return cmocka_run_group_tests_name("ep_route_arrays", tests, open_store, close_store);
}
