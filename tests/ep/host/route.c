// Routes of ranks that stay: every array against a plain computation, and operations that go by a route against
// ordinary ones with the same top-k, bit by bit. Views that change are in route_views.c, bad arguments in
// route_errors.c.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/host/host.h"
#include "ep/support/routes.h"

enum { RANKS = 3, CAPACITY = 4, TOKENS = 6, HIDDEN = 256, TOPK = 4, EXPERTS = 3, TIMES = 1000, DRAWS = 150 };

static weft_store_t *store;
static const int32_t ranks[RANKS] = {0, 1, 2};

static int open_store(void **state) {
  (void)state;
  return weft_store_open_local(&store);
}

static int close_store(void **state) {
  (void)state;
  weft_store_close(store);
  return 0;
}

// `prefix` is the test's own.
static void run(const char *prefix, struct setup setup, rank_body body, void *arg) {
  setup.store = store;
  setup.prefix = prefix;
  setup.capacity = CAPACITY;
  setup.tokens = TOKENS;
  setup.hidden = HIDDEN;
  setup.topk = TOPK;
  setup.experts = EXPERTS;
  ranks_run(&setup, ranks, RANKS, body, arg);
}

static weft_ep_route_t *make_route(struct rank *rank, uint32_t alignment) {
  weft_ep_route_t *route = NULL;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.alignment = alignment;
  if (weft_ep_route_create(rank->ep, &options, &route) != 0)
    rank_fail(rank, "route_create: %s", weft_last_error());
  return route;
}

// --- arrays ---

#define EXPECT(name, is, right)                                                                                        \
  do {                                                                                                                 \
    int64_t is_ = (int64_t)(is), right_ = (int64_t)(right);                                                            \
    if (is_ != right_)                                                                                                 \
      return rank_fail(rank, "%s is %lld, should be %lld", name, (long long)is_, (long long)right_);                   \
  } while (0)

// Whether a token of rank `from` goes to rank `to`; `counts` its selections there.
static bool goes(const struct draw *draw, uint32_t from, uint32_t token, uint32_t to) {
  for (uint32_t k = 0; k < draw->topk; k++) {
    int64_t expert = draw->topk_idx[from][token * draw->topk + k];
    if (expert >= 0 && expert / EXPERTS == to)
      return true;
  }
  return false;
}

static bool check_sent(struct rank *rank, const struct draw *draw, const struct weft_ep_route_arrays *arrays) {
  uint32_t self = (uint32_t)rank->index;
  for (uint32_t r = 0; r < CAPACITY; r++) {
    int32_t tokens = 0, selections[EXPERTS] = {0};
    for (uint32_t t = 0; t < draw->tokens[self]; t++) {
      bool there = goes(draw, self, t, r);
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
      if (!goes(draw, r, t, self))
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
    routes[i] = make_route(rank, alignments[i]);
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
    // A part of an expert, rounded up, has more room than the buffers: what is needed is told.
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
  run("/arrays/", (struct setup){0}, compute_arrays, NULL);
}

// --- equal bits ---

// Rows of this rank that go to others.
static uint64_t rows_to_others(const struct rank *rank, const struct draw *draw) {
  uint64_t rows = 0;
  for (uint32_t t = 0; t < draw->tokens[rank->index]; t++)
    for (uint32_t r = 0; r < draw->count; r++)
      rows += r != (uint32_t)rank->index && goes(draw, (uint32_t)rank->index, t, r);
  return rows;
}

static uint64_t row_bytes(enum weft_ep_dtype dtype) {
  return dtype <= WEFT_EP_BF16 ? 2 * HIDDEN : HIDDEN + (dtype == WEFT_EP_FP8_UE8M0 ? 4 : HIDDEN / 128 * 4);
}

// A dispatch that fills a route, ordinary ones, and ones that go by the route, in all layouts and types: the same bits.
static bool compare_ways(struct rank *rank, uint64_t drawn, weft_ep_route_t *route, struct brought *first,
                         struct brought *second) {
  struct draw draw = {.seed = drawn, .count = RANKS, .topk = drawn % 3 ? TOPK : 3, .drop = (float)(drawn % 4) / 5};
  draw_make(&draw, &rank->setup);
  uint64_t state = random_mix(drawn);
  struct route_way way = {.layout = (enum weft_ep_layout)(1 + random_next(&state) % 3),
                          .alignment = 1, // that of the route
                          .weights_back = random_next(&state) % 2,
                          .dtype = (enum weft_ep_dtype)(1 + random_next(&state) % 4),
                          .combine_dtype = random_next(&state) % 4 ? 0 : WEFT_EP_COMBINE_LOGFMT10,
                          .in_place = random_next(&state) % 4 == 0,
                          .keep_places = random_next(&state) % 2,
                          .renormalize = random_next(&state) % 2,
                          .apart = random_next(&state) % 2};
  way.late = way.layout != WEFT_EP_RANK_MAJOR && random_next(&state) % 3 == 0;
  way = way_of(way);
  draw_x(&rank->setup, drawn, rank->index, rank->x);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
  args.route = route;
  bool good = way_run(rank, &draw, &way, &args, drawn, first);
  for (int i = 0; good && i < 4; i++) {
    // The same once more, by the route; then another x in another layout and type, with and without the route.
    if (i > 0) {
      draw_x(&rank->setup, random_next(&state), rank->index, rank->x);
      way.dtype = (enum weft_ep_dtype)(1 + random_next(&state) % 4);
      way.in_place = random_next(&state) % 4 == 0;
      way.apart = random_next(&state) % 2;
      way.alignment = (uint32_t)(1 + random_next(&state) % 4);
      way.layout = (enum weft_ep_layout)(1 + random_next(&state) % 3);
      if (way.late && way.layout == WEFT_EP_RANK_MAJOR)
        way.layout = WEFT_EP_PACKED;
      way = way_of(way);
      args = way_dispatch(rank, &draw, &way, rank->x);
      good = way_run(rank, &draw, &way, &args, drawn + (uint64_t)i, first);
    }
    args.route = route;
    if (i % 2) {
      args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
      args.topk_weights = NULL;
    } else {
      args.topk_idx = NULL;
      args.topk_weights = NULL;
    }
    good = good && way_run(rank, &draw, &way, &args, drawn + (uint64_t)i, second) &&
           brought_equal(rank, first, second, "by the route");
    uint64_t bytes = rows_to_others(rank, &draw) * row_bytes(way.dtype);
    if (good && second->info.wire_bytes != bytes)
      good = rank_fail(rank, "%llu bytes were sent, should be %llu", (unsigned long long)second->info.wire_bytes,
                       (unsigned long long)bytes);
    if (good && first->info.wire_bytes <= bytes && bytes > 0)
      good = rank_fail(rank, "an ordinary dispatch sent %llu bytes, no more than one by a route",
                       (unsigned long long)first->info.wire_bytes);
  }
  draw_free(&draw);
  return good;
}

static void go_by_drawn_routes(struct rank *rank, void *arg) {
  (void)arg;
  weft_ep_route_t *route = make_route(rank, 1);
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  for (uint64_t i = 0; i < DRAWS; i++)
    if (!compare_ways(rank, i, route, &first, &second))
      break;
  brought_free(&first);
  brought_free(&second);
  weft_ep_route_free(route);
}

static void operations_by_a_route_bring_the_same_bits(void **state) {
  (void)state;
  run("/bits/", (struct setup){0}, go_by_drawn_routes, NULL);
}

static void reuse(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 77, .count = RANKS, .topk = TOPK, .drop = 0.2f};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = make_route(rank, 1);
  uint16_t *theirs = calloc((size_t)TOKENS * HIDDEN * RANKS, sizeof *theirs);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
  args.route = route;
  for (uint64_t i = 0; i < TIMES && !rank->error[0]; i++) {
    for (int32_t r = 0; r < RANKS; r++)
      draw_x(&rank->setup, i, r, theirs + (size_t)r * TOKENS * HIDDEN);
    memcpy(rank->x, theirs + (size_t)rank->index * TOKENS * HIDDEN, (size_t)TOKENS * HIDDEN * 2);
    if (!way_run(rank, &draw, &way, &args, i, &brought))
      break;
    args.topk_idx = NULL;
    args.topk_weights = NULL;
    for (uint32_t row = 0; row < brought.info.num_rows; row++)
      if (memcmp(brought.x + (size_t)row * HIDDEN * 2,
                 theirs + ((size_t)brought.src_rank[row] * TOKENS + (size_t)brought.src_token[row]) * HIDDEN,
                 HIDDEN * 2) != 0)
        rank_fail(rank, "row %u of time %llu is not what rank %d sent", row, (unsigned long long)i,
                  brought.src_rank[row]);
  }
  free(theirs);
  brought_free(&brought);
  draw_free(&draw);
  weft_ep_route_free(route);
}

static void a_route_serves_a_thousand_times(void **state) {
  (void)state;
  run("/times/", (struct setup){0}, reuse, NULL);
}

// --- several at once ---

// Two operations by one route are open at once, in turn with each other; it is freed when they still need it.
static void open_two(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 5, .count = RANKS, .topk = TOPK};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_PER_EXPERT, .dtype = WEFT_EP_BF16};
  struct brought plain[2], kept[2];
  uint16_t *x[2] = {rank->x, calloc((size_t)TOKENS * HIDDEN, 2)};
  weft_ep_route_t *route = make_route(rank, 1);
  struct weft_ep_dispatch_args args[2];
  bool good = true;
  for (int i = 0; i < 2; i++) {
    brought_new(&plain[i], &rank->setup);
    brought_new(&kept[i], &rank->setup);
    draw_x(&rank->setup, (uint64_t)i, rank->index, x[i]);
    args[i] = way_dispatch(rank, &draw, &way, x[i]);
    args[i].route = i == 0 ? route : NULL;
    good = good && way_run(rank, &draw, &way, &args[i], (uint64_t)i, &plain[i]);
    args[i].route = route;
    args[i].topk_idx = NULL;
    args[i].topk_weights = NULL;
  }
  for (int round = 0; good && round < 4; round++) {
    uint64_t op[2];
    int rc = 0;
    for (int i = 0; i < 2; i++) {
      brought_poison(&kept[i]);
      way_recv(rank, &way, &kept[i]);
      way_answers(rank, (uint64_t)i, &kept[i]);
      rc = rc ? rc : weft_ep_dispatch_send(rank->ep, &args[i], &op[i]);
    }
    if (rc == 0 && weft_ep_route_plan(route, rank->topk_idx, 0, NULL) != WEFT_ERR_BUSY)
      rank_fail(rank, "a route that operations need was planned");
    if (round == 3)
      weft_ep_route_free(route);
    for (int i = 0; i < 2; i++)
      rc = rc ? rc : weft_ep_dispatch_recv(rank->ep, op[i], &kept[i].recv, &kept[i].info);
    for (int i = 0; i < 2; i++) {
      struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &kept[i]);
      rc = rc ? rc : weft_ep_combine(rank->ep, op[i], &combine, &kept[i].result);
    }
    if (rc != 0)
      good = rank_fail(rank, "two at once: %s: %s", weft_err_name(rc), weft_last_error());
    for (int i = 0; good && i < 2; i++)
      good = brought_equal(rank, &plain[i], &kept[i], "two at once");
  }
  for (int i = 0; i < 2; i++) {
    brought_free(&plain[i]);
    brought_free(&kept[i]);
  }
  free(x[1]);
  draw_free(&draw);
}

static void two_operations_go_by_one_route(void **state) {
  (void)state;
  run("/two/", (struct setup){.apart = true}, open_two, NULL);
}

// --- combines by a route ---

// What a combine by the route brings is what the combine of the operation that filled it brought.
static void combine_by_route(struct rank *rank, void *arg) {
  (void)arg;
  weft_ep_route_t *route = make_route(rank, 1);
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  for (uint64_t i = 0; i < 40 && !rank->error[0]; i++) {
    struct draw draw = {.seed = i, .count = RANKS, .topk = TOPK, .drop = (float)(i % 3) / 4};
    draw_make(&draw, &rank->setup);
    struct route_way way = {.layout = (enum weft_ep_layout)(1 + i % 3),
                            .alignment = 1,
                            .combine_dtype = i % 5 == 2 ? WEFT_EP_COMBINE_LOGFMT10 : 0,
                            .weights_back = i % 2,
                            .late = i % 3 != 1 && i % 4 == 0};
    way = way_of(way);
    struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
    args.route = route;
    if (!way_run(rank, &draw, &way, &args, i, &first))
      break;
    for (uint32_t again = 0; again < 3 && !rank->error[0]; again++) {
      memcpy(second.memory, first.memory, first.bytes);
      memset(second.out, 0xEE, (size_t)TOKENS * HIDDEN * 2);
      memset(second.out_weights, 0xEE, (size_t)TOKENS * TOPK * sizeof(float));
      memset(second.missing, 0xEE, sizeof second.missing);
      second.info = first.info;
      second.result =
          (struct weft_ep_result){.size = sizeof second.result, .missing = second.missing, .missing_cap = 256};
      way_answers(rank, i, &second);
      struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &second);
      combine.flags |= again == 1 ? WEFT_EP_COMBINE_KEEP : 0;
      uint64_t before = weft_ep_next_op(rank->ep), op;
      int rc = weft_ep_combine_route(rank->ep, route, &combine, &second.result, &op);
      if (rc == 0 && again == 1) { // and once more, of the operation that it left open
        combine.flags = 0;
        memset(second.out, 0xEE, (size_t)TOKENS * HIDDEN * 2);
        rc = weft_ep_combine(rank->ep, op, &combine, &second.result);
      }
      if (rc != 0 || op != before || weft_ep_next_op(rank->ep) != before + 1)
        rank_fail(rank, "combine_route: %s: %s", weft_err_name(rc), weft_last_error());
      else
        brought_equal(rank, &first, &second, "combined by the route");
    }
    draw_free(&draw);
  }
  weft_ep_route_free(route);
  brought_free(&first);
  brought_free(&second);
}

static void a_combine_by_a_route_brings_the_same_bits(void **state) {
  (void)state;
  run("/combine/", (struct setup){0}, combine_by_route, NULL);
}

// --- masks ---

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
  weft_ep_route_t *route = make_route(rank, 1);
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
  run("/mask1/", (struct setup){.dtype = WEFT_EP_FP8}, mask_one, &layouts[0]);
  run("/mask2/", (struct setup){.dtype = WEFT_EP_FP8}, mask_one, &layouts[1]);
}

// --- ranks that go different ways ---

// What rank 1 does while the others dispatch by the route of operation n.
enum deviation { OTHER_ROUTE, NO_ROUTE, COMBINES, DEVIATIONS };

static void deviate(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 2, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  weft_ep_route_t *routes[] = {make_route(rank, 1), make_route(rank, 1)};
  bool good = true;
  for (int i = 0; i < 2 && good; i++) {
    struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
    args.route = routes[i];
    good = way_run(rank, &draw, &way, &args, 4, &first);
  }
  for (int deviation = 0; deviation < DEVIATIONS && good; deviation++) {
    bool odd = rank->index == 1;
    uint64_t op, before = weft_ep_next_op(rank->ep);
    struct weft_ep_dispatch_args plain = way_dispatch(rank, &draw, &way, rank->x), kept = plain;
    kept.topk_idx = NULL;
    kept.topk_weights = NULL;
    kept.route = routes[odd && deviation == OTHER_ROUTE];
    way_recv(rank, &way, &second);
    struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &second);
    int rc = odd && deviation == COMBINES
                 ? weft_ep_combine_route(rank->ep, routes[0], &combine, NULL, &op)
                 : weft_ep_dispatch(rank->ep, odd && deviation == NO_ROUTE ? &plain : &kept, &second.recv, NULL, &op);
    const char *words = odd                        ? "dispatches by the route of operation"
                        : deviation == OTHER_ROUTE ? "rank 1 dispatches by the route of operation"
                        : deviation == NO_ROUTE    ? "rank 1 dispatches without a route"
                                                   : "rank 1 combines by the route of operation";
    if (rc != WEFT_ERR_PROTOCOL || !strstr(weft_last_error(), words))
      good = rank_fail(rank, "%d: %s: %s", deviation, weft_err_name(rc), weft_last_error());
    else if (weft_ep_next_op(rank->ep) != before + 1 || weft_ep_finish(rank->ep, before) != WEFT_ERR_INVALID)
      good = rank_fail(rank, "the operation is still open");
    kept.route = routes[0];
    good = good && way_run(rank, &draw, &way, &kept, 4, &second) && brought_equal(rank, &first, &second, "afterwards");
  }
  // A barrier among them says so, and the others go on without its rows.
  if (good && rank->index == 1) {
    int rc = weft_ep_barrier(rank->ep);
    if (rc != WEFT_ERR_PROTOCOL || !strstr(weft_last_error(), "dispatches"))
      rank_fail(rank, "a barrier: %s: %s", weft_err_name(rc), weft_last_error());
  } else if (good) {
    struct weft_ep_dispatch_args kept = way_dispatch(rank, &draw, &way, rank->x);
    kept.topk_idx = NULL;
    kept.topk_weights = NULL;
    kept.route = routes[0];
    if (way_run(rank, &draw, &way, &kept, 4, &second) && second.result.num_missing == 0)
      rank_fail(rank, "nothing is missing of a rank that had a barrier");
  }
  for (int i = 0; i < 2; i++)
    weft_ep_route_free(routes[i]);
  brought_free(&first);
  brought_free(&second);
  draw_free(&draw);
}

static void ranks_that_go_different_ways_end_the_operation(void **state) {
  (void)state;
  run("/ways/", (struct setup){0}, deviate, NULL);
}

// --- interruptions, and ranks that took each other for lost ---

// Rank 0 is interrupted again and again, wherever it waits; the others come late.
static void interrupt_combines(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 21, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *routes[] = {make_route(rank, 1), make_route(rank, 1)};
  bool good = true;
  for (int i = 0; i < 2 && good; i++) {
    struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
    args.route = routes[i];
    good = way_run(rank, &draw, &way, &args, 6, &brought);
  }
  uint16_t *right = calloc((size_t)TOKENS * HIDDEN, sizeof *right);
  memcpy(right, brought.out, (size_t)TOKENS * HIDDEN * 2);
  struct weft_ep_combine_args combine = way_combine(rank, &draw, &way, &brought);
  uint32_t canceled = 0;
  for (int i = 0; i < 200 && good; i++) {
    uint64_t op, before = weft_ep_next_op(rank->ep);
    memset(brought.out, 0xEE, (size_t)TOKENS * HIDDEN * 2);
    for (int turn = 0; rank->index != 0 && turn < i % 8; turn++)
      sched_yield();
    int rc;
    do {
      if (rank->index == 0)
        weft_ep_interrupt(rank->ep);
      rc = weft_ep_combine_route(rank->ep, routes[0], &combine, &brought.result, &op);
      bool early = rank->ep->host->combining == 0; // its headers have not all come
      if (rc == WEFT_ERR_CANCELED && canceled++ < 5 && early) {
        struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
        uint64_t other;
        int dispatched = weft_ep_dispatch(rank->ep, &none, &brought.recv, NULL, &other);
        if (dispatched != WEFT_ERR_BUSY)
          good = rank_fail(rank, "a dispatch in between: %s", weft_err_name(dispatched));
      }
    } while (rc == WEFT_ERR_CANCELED && good);
    if (good && (rc != 0 || op != before || memcmp(brought.out, right, (size_t)TOKENS * HIDDEN * 2) != 0))
      good = rank_fail(rank, "combine_route: %s: %s", weft_err_name(rc), weft_last_error());
  }
  if (good && rank->index == 0 && canceled == 0)
    rank_fail(rank, "nothing was interrupted");
  free(right);
  for (int i = 0; i < 2; i++)
    weft_ep_route_free(routes[i]);
  brought_free(&brought);
  draw_free(&draw);
}

static void an_interrupted_combine_goes_on(void **state) {
  (void)state;
  run("/interrupt/", (struct setup){0}, interrupt_combines, NULL);
}

// Rank 1 has nothing of rank 0's in its route, as if it had taken it for lost in the operation that filled it: rank 0
// learns that from its header, and waits for no answer.
static void forget_one(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 23, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_PER_EXPERT, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = make_route(rank, 1);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &draw, &way, rank->x);
  args.route = route;
  bool good = way_run(rank, &draw, &way, &args, 6, &brought);
  if (good && rank->index == 1)
    route->kept->sources[0].rows = 0;
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  uint32_t missing = 0;
  for (uint32_t i = 0; i < TOKENS * TOPK && rank->index == 0; i++)
    missing += draw.topk_idx[0][i] >= 0 && draw.topk_idx[0][i] / EXPERTS == 1;
  for (int i = 0; i < 3 && good; i++) {
    good = way_run(rank, &draw, &way, &args, 6, &brought);
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

static void a_rank_that_kept_nothing_of_another_says_so(void **state) {
  (void)state;
  run("/forgot/", (struct setup){0}, forget_one, NULL);
}

// --- a joiner in the middle of an operation ---

// Ranks 0 and 1 have a route when rank 2 is taken into a view. Rank 1 runs their next operation in that view already,
// as if a death had made it decide so (docs/design/membership.md); rank 0 finds that out from its header.
struct middle {
  _Atomic uint32_t filled, knows, ended;
  _Atomic uint64_t op;
  struct rank ranks[RANKS];
};

static bool wait_for(struct rank *rank, _Atomic uint32_t *what, uint32_t count) {
  uint64_t deadline = clock_deadline_ms(60000);
  while (atomic_load(what) < count)
    if (clock_passed(deadline))
      return rank_fail(rank, "the others did not come");
    else
      sched_yield();
  return true;
}

static bool knows_joiner(struct rank *rank, uint64_t *epoch) {
  int32_t view[CAPACITY];
  uint32_t count = 0;
  uint64_t deadline = clock_deadline_ms(60000);
  while (weft_ep_committed_view(rank->ep, epoch, view, CAPACITY, &count),
         count < RANKS || atomic_load(&rank->ep->ready) < *epoch)
    if (clock_passed(deadline))
      return rank_fail(rank, "the view with the joiner did not come");
    else
      sched_yield();
  return true;
}

static bool expect_code(struct rank *rank, int rc, int code, const char *words) {
  return rc == code && strstr(weft_last_error(), words)
             ? true
             : rank_fail(rank, "%s: \"%s\" does not say \"%s\"", weft_err_name(rc), weft_last_error(), words);
}

static bool act_in_the_middle(struct rank *rank, struct middle *middle, const struct draw *draw,
                              struct brought *brought, weft_ep_route_t *route) {
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct weft_ep_dispatch_args fill = way_dispatch(rank, draw, &way, rank->x), kept = fill;
  uint64_t op, epoch;
  fill.route = kept.route = route;
  kept.topk_idx = NULL;
  kept.topk_weights = NULL;
  way_recv(rank, &way, brought);
  if (rank->index == 2) {
    if (!wait_for(rank, &middle->filled, 2) || !rank_activate(rank) ||
        !expect_code(rank, weft_ep_dispatch(rank->ep, &fill, &brought->recv, NULL, &op), WEFT_ERR_PROTOCOL,
                     "rank 0 dispatches by the route of operation"))
      return false;
    return way_run(rank, draw, &way, &fill, 1, brought);
  }
  if (!rank_activate(rank) || !way_run(rank, draw, &way, &fill, 1, brought))
    return false;
  atomic_fetch_add(&middle->filled, 1);
  if (!knows_joiner(rank, &epoch))
    return false;
  way_recv(rank, &way, brought);
  if (rank->index == 0) {
    if (!expect_code(rank, weft_ep_dispatch(rank->ep, &kept, &brought->recv, NULL, &op), WEFT_ERR_CONFLICT,
                     "rank 2 joined in the middle"))
      return false;
  } else {
    uint64_t before = weft_ep_next_op(rank->ep);
    ep_activation_adopt(&rank->ep->activation, epoch);
    struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
    if (!expect_code(rank, weft_ep_route_await(route, &info, 0), WEFT_ERR_CONFLICT, "rank 2 has joined") ||
        info.num_ranks != 2 ||
        !expect_code(rank, weft_ep_dispatch_send(rank->ep, &kept, &op), WEFT_ERR_CONFLICT, "rank 2 has joined") ||
        weft_ep_next_op(rank->ep) != before ||
        !expect_code(rank, weft_ep_dispatch(rank->ep, &fill, &brought->recv, NULL, &op), WEFT_ERR_PROTOCOL,
                     "rank 0 dispatches by the route of operation"))
      return rank_fail(rank, "%u ranks", info.num_ranks);
  }
  return way_run(rank, draw, &way, &fill, 1, brought);
}

static void *be_in_the_middle(void *arg) {
  struct rank *rank = arg;
  struct middle *middle = (struct middle *)((char *)(rank - rank->index) - offsetof(struct middle, ranks));
  struct draw draw = {.seed = 12, .count = RANKS, .topk = TOPK, .even = true};
  struct setup setup = rank->setup;
  struct brought brought;
  int32_t index = rank->index;
  while (index == 2 && atomic_load(&middle->filled) == 0)
    sched_yield();
  if (!rank_open(rank, &setup, index, index < 2 ? ranks : NULL, index < 2 ? 2 : 0))
    return NULL;
  draw_make(&draw, &rank->setup);
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = make_route(rank, 1);
  if (act_in_the_middle(rank, middle, &draw, &brought, route) && brought.info.num_ranks != RANKS)
    rank_fail(rank, "the operation that followed had %u ranks", brought.info.num_ranks);
  atomic_fetch_add(&middle->ended, 1);
  wait_for(rank, &middle->ended, RANKS);
  weft_ep_route_free(route);
  brought_free(&brought);
  draw_free(&draw);
  rank_close(rank);
  return NULL;
}

static void a_joiner_in_the_middle_of_an_operation_ends_it_for_all(void **state) {
  (void)state;
  struct middle *middle = calloc(1, sizeof *middle);
  pthread_t threads[RANKS];
  for (int32_t i = 0; i < RANKS; i++) {
    middle->ranks[i].index = i;
    middle->ranks[i].setup = (struct setup){.store = store,
                                            .prefix = "/middle/",
                                            .capacity = CAPACITY,
                                            .tokens = TOKENS,
                                            .hidden = HIDDEN,
                                            .topk = TOPK,
                                            .experts = EXPERTS,
                                            .apart = true};
    assert_int_equal(pthread_create(&threads[i], NULL, be_in_the_middle, &middle->ranks[i]), 0);
  }
  for (int32_t i = 0; i < RANKS; i++)
    pthread_join(threads[i], NULL);
  for (int32_t i = 0; i < RANKS; i++)
    if (middle->ranks[i].error[0])
      print_message("%s\n", middle->ranks[i].error);
  for (int32_t i = 0; i < RANKS; i++)
    assert_string_equal(middle->ranks[i].error, "");
  free(middle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_array_is_that_of_a_plain_computation),
      cmocka_unit_test(operations_by_a_route_bring_the_same_bits),
      cmocka_unit_test(a_route_serves_a_thousand_times),
      cmocka_unit_test(two_operations_go_by_one_route),
      cmocka_unit_test(a_combine_by_a_route_brings_the_same_bits),
      cmocka_unit_test(masked_ranks_keep_their_places),
      cmocka_unit_test(ranks_that_go_different_ways_end_the_operation),
      cmocka_unit_test(an_interrupted_combine_goes_on),
      cmocka_unit_test(a_rank_that_kept_nothing_of_another_says_so),
      cmocka_unit_test(a_joiner_in_the_middle_of_an_operation_ends_it_for_all),
  };
  return cmocka_run_group_tests_name("ep_route", tests, open_store, close_store);
}
