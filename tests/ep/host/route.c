// Operations by a route against ordinary ones with the same top-k, bit by bit: repeated, two at once, with combines by
// the route, also interrupted ones. Its arrays are in route_arrays.c, ranks that are masked or did not keep the route
// in route_missing.c, ranks that disagree in route_disagree.c, changing views in route_views.c, bad arguments in
// route_errors.c.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/host/host.h"
#include "ep/host/support/route_ranks.h"
#include "support/local_store.h"
#include "support/sanitized.h"

enum { TIMES = 1000, DRAWS = 150 };

// --- equal bits ---

// Rows of this rank that go to others.
static uint64_t rows_to_others(const struct rank *rank, const struct draw *draw) {
  uint64_t rows = 0;
  for (uint32_t t = 0; t < draw->tokens[rank->index]; t++)
    for (uint32_t r = 0; r < draw->count; r++)
      rows += r != (uint32_t)rank->index && draw_goes(draw, (uint32_t)rank->index, t, r);
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
    if (way_shares()) // ep_once_by_route counts the bytes
      continue;
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
  weft_ep_route_t *route = route_make(rank, 1);
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  for (uint64_t i = 0; i < (support_slowed() ? DRAWS / 3 : DRAWS); i++)
    if (!compare_ways(rank, i, route, &first, &second))
      break;
  brought_free(&first);
  brought_free(&second);
  weft_ep_route_free(route);
}

static void operations_by_a_route_bring_the_same_bits(void **state) {
  (void)state;
  route_ranks_run(store, "/bits/", (struct setup){0}, go_by_drawn_routes, NULL);
}

static void reuse(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 77, .count = RANKS, .topk = TOPK, .drop = 0.2f};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = route_make(rank, 1);
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
  route_ranks_run(store, "/times/", (struct setup){0}, reuse, NULL);
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
  weft_ep_route_t *route = route_make(rank, 1);
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
  route_ranks_run(store, "/two/", (struct setup){.apart = true}, open_two, NULL);
}

// --- combines by a route ---

// What a combine by the route brings is what the combine of the operation that filled it brought.
static void combine_by_route(struct rank *rank, void *arg) {
  (void)arg;
  weft_ep_route_t *route = route_make(rank, 1);
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
  route_ranks_run(store, "/combine/", (struct setup){0}, combine_by_route, NULL);
}

// --- interruptions ---

// Combines; rank 0 surely waits when one of every SURELY is interrupted.
enum { INTERRUPTED = 200, SURELY = 8, WAIT_MS = 20000 };

// Rank 0 is interrupted again and again, wherever it waits; the others come late. `*arg`: how many of the combines in
// which rank 0 surely waits have been interrupted.
static void interrupt_combines(struct rank *rank, void *arg) {
  atomic_int *sure = arg;
  struct draw draw = {.seed = 21, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought brought;
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *routes[] = {route_make(rank, 1), route_make(rank, 1)};
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
  uint64_t deadline_ns = clock_deadline_ms(WAIT_MS);
  for (int i = 0; i < INTERRUPTED && good; i++) {
    uint64_t op, before = weft_ep_next_op(rank->ep);
    memset(brought.out, 0xEE, (size_t)TOKENS * HIDDEN * 2);
    for (int turn = 0; rank->index != 0 && turn < i % SURELY; turn++)
      sched_yield();
    while (rank->index != 0 && i % SURELY == 0 && atomic_load(sure) <= i / SURELY && !clock_passed(deadline_ns))
      sched_yield();
    int rc;
    do {
      if (rank->index == 0)
        weft_ep_interrupt(rank->ep);
      rc = weft_ep_combine_route(rank->ep, routes[0], &combine, &brought.result, &op);
      if (rc == WEFT_ERR_CANCELED && i % SURELY == 0)
        atomic_store(sure, i / SURELY + 1);
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
  if (good && rank->index == 0 && canceled < INTERRUPTED / SURELY)
    rank_fail(rank, "%u combines were interrupted, should be %d or more", canceled, INTERRUPTED / SURELY);
  free(right);
  for (int i = 0; i < 2; i++)
    weft_ep_route_free(routes[i]);
  brought_free(&brought);
  draw_free(&draw);
}

static void an_interrupted_combine_goes_on(void **state) {
  (void)state;
  atomic_int sure = 0;
  route_ranks_run(store, "/interrupt/", (struct setup){0}, interrupt_combines, &sure);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operations_by_a_route_bring_the_same_bits),
      cmocka_unit_test(a_route_serves_a_thousand_times),
      cmocka_unit_test(two_operations_go_by_one_route),
      cmocka_unit_test(a_combine_by_a_route_brings_the_same_bits),
      cmocka_unit_test(an_interrupted_combine_goes_on),
  };
  return cmocka_run_group_tests_name("ep_route", tests, open_store, close_store);
}
