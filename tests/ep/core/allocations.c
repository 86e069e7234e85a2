// Operations of ranks that stay allocate, map, lock and log nothing after the first few, in every layout, format and
// way of calling, also with masked ranks.
#include <inttypes.h>

#include "cmocka_all.h"

#include "base/log.h"
#include "ep/host/support/world.h"
#include "ep/support/rank.h"
#include "ep/support/routes.h"
#include "support/allocations.h"

enum { RANKS = 3, WARM_UP = 16, OPERATIONS = 100 };

static _Thread_local struct allocations sum;
static _Thread_local uint64_t logged;

// The linker puts these in the place of the library's (--wrap): what counts is what happens inside a call.
#define COUNTED(name, parameters, arguments)                                                                           \
  int __real_##name parameters;                                                                                        \
  int __wrap_##name parameters;                                                                                        \
  int __wrap_##name parameters {                                                                                       \
    allocations_begin();                                                                                               \
    int rc = __real_##name arguments;                                                                                  \
    allocations_end(&sum);                                                                                             \
    return rc;                                                                                                         \
  }
COUNTED(weft_ep_dispatch_send, (weft_ep_t * ep, const struct weft_ep_dispatch_args *args, uint64_t *op), (ep, args, op))
COUNTED(weft_ep_dispatch_recv,
        (weft_ep_t * ep, uint64_t op, const struct weft_ep_recv_args *recv, struct weft_ep_info *info),
        (ep, op, recv, info))
COUNTED(weft_ep_dispatch,
        (weft_ep_t * ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
         struct weft_ep_info *info, uint64_t *op),
        (ep, args, recv, info, op))
COUNTED(weft_ep_combine_send, (weft_ep_t * ep, uint64_t op, const struct weft_ep_combine_args *args), (ep, op, args))
COUNTED(weft_ep_combine_recv,
        (weft_ep_t * ep, uint64_t op, const struct weft_ep_combine_args *args, struct weft_ep_result *result),
        (ep, op, args, result))
COUNTED(weft_ep_combine,
        (weft_ep_t * ep, uint64_t op, const struct weft_ep_combine_args *args, struct weft_ep_result *result),
        (ep, op, args, result))
COUNTED(weft_ep_combine_route,
        (weft_ep_t * ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args, struct weft_ep_result *result,
         uint64_t *op),
        (ep, route, args, result, op))
COUNTED(weft_ep_combine_rows, (weft_ep_t * ep, uint64_t op, void **rows_at), (ep, op, rows_at))
COUNTED(weft_ep_mask_update, (weft_ep_t * ep, int32_t rank, bool masked), (ep, rank, masked))
COUNTED(weft_ep_barrier, (weft_ep_t * ep), (ep))

void __real_log_line(enum log_level level, const char *format, ...);
void __wrap_log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_log_line(enum log_level level, const char *format, ...) {
  (void)level, (void)format;
  logged++;
}

struct way_to_operate {
  const char *what;
  const struct world *world; // NULL: as the setup says
};

static bool operate(struct rank *rank, const struct world *world, int count) {
  for (int i = 0; i < count; i++) {
    if (!(world ? world_operate(rank, world) : rank_operate(rank)))
      return false;
    if (weft_ep_barrier(rank->ep) != 0)
      return rank_fail(rank, "barrier: %s", weft_last_error());
  }
  return true;
}

static void body(struct rank *rank, void *arg) {
  const struct way_to_operate *how = arg;
  if (!operate(rank, how->world, WARM_UP))
    return;
  sum = (struct allocations){0};
  logged = 0;
  if (!operate(rank, how->world, OPERATIONS))
    return;
  struct allocations made = sum;
  uint64_t lines = logged;
  if (!operate(rank, how->world, 2)) // nobody closes before all have counted: that takes a lock
    return;
  if (made.own + made.others + made.maps + made.locks + made.getenvs + lines > 0)
    rank_fail(rank,
              "%s: %d operations made %" PRIu64 " + %" PRIu64 " allocations, %" PRIu64 " maps, %" PRIu64
              " locks, %" PRIu64 " getenvs, %" PRIu64 " lines of log",
              how->what, OPERATIONS, made.own, made.others, made.maps, made.locks, made.getenvs, lines);
}

static void run(struct setup setup, const char *what) {
  static const int32_t ranks[RANKS] = {0, 1, 2};
  setup.uneven = setup.masks = setup.renormalize = true;
  setup.drop = 0.2f;
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  struct way_to_operate how = {.what = what};
  ranks_run(&setup, ranks, RANKS, body, &how);
  weft_store_close(setup.store);
}

// Every layout, opaque rows, biases, weights that go back.
static void what_a_world_draws_asks_for_nothing(void **state) {
  (void)state;
  static const int32_t ranks[RANKS] = {0, 1, 2};
  struct world world = {.seed = 9,
                        .capacity = 4,
                        .tokens = 16,
                        .hidden = 256,
                        .topk = 4,
                        .experts = 3,
                        .dtype = WEFT_EP_BF16,
                        .combine_dtype = WEFT_EP_COMBINE_BF16,
                        .ranks = ranks,
                        .num_ranks = RANKS};
  struct setup setup = {.capacity = 4, .tokens = 16, .hidden = 256, .topk = 4, .experts = 3};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  struct way_to_operate how = {.what = "each in its own way", .world = &world};
  ranks_run(&setup, ranks, RANKS, body, &how);
  weft_store_close(setup.store);
}

static void operations_ask_the_system_for_nothing(void **state) {
  (void)state;
  static const struct {
    enum weft_ep_layout layout;
    bool late_weights, in_place, cast_before, coded;
    const char *what;
    bool vary;
  } ways[] = {{WEFT_EP_RANK_MAJOR, false, false, false, false, "rank-major", false},
              {WEFT_EP_RANK_MAJOR, false, true, false, false, "rank-major in place", false},
              {WEFT_EP_RANK_MAJOR, false, true, true, false, "rank-major in place, cast before", false},
              {WEFT_EP_PER_EXPERT, false, false, false, false, "per-expert", false},
              {WEFT_EP_PER_EXPERT, false, false, true, false, "per-expert, cast before", false},
              {WEFT_EP_PER_EXPERT, true, true, false, false, "per-expert in place with late weights", false},
              {WEFT_EP_PER_EXPERT, false, false, false, true, "per-expert, combined as logfmt10", false},
              {WEFT_EP_RANK_MAJOR, false, false, true, false, "rank-major, each call another", true},
              {WEFT_EP_PER_EXPERT, false, false, true, false, "per-expert, each call another", true}};
  for (enum weft_ep_dtype dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++)
    for (int apart = 0; apart < 2; apart++)
      for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].cast_before && dtype == WEFT_EP_BF16 && !ways[i].vary)
          continue;
        run((struct setup){.dtype = dtype,
                           .apart = apart,
                           .layout = ways[i].layout,
                           .late_weights = ways[i].late_weights,
                           .in_place = ways[i].in_place,
                           .combine_dtype = ways[i].coded ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16,
                           .cast_before = ways[i].cast_before,
                           .placed = ways[i].in_place,
                           .vary = ways[i].vary},
            ways[i].what);
      }
}

static bool operate_by_routes(struct rank *rank, weft_ep_route_t *route, const struct draw *draw,
                              struct brought *brought, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    struct route_way way = {.layout = (enum weft_ep_layout)(1 + i % 3), .alignment = 1, .apart = i % 5 == 0};
    struct weft_ep_dispatch_args args = way_dispatch(rank, draw, &way, rank->x);
    args.route = route;
    if (i % 4 != 0) // else it fills the route
      args.topk_idx = NULL, args.topk_weights = NULL;
    if (!way_run(rank, draw, &way, &args, i, brought))
      return false;
    uint64_t op;
    struct weft_ep_combine_args combine = way_combine(rank, draw, &way, brought);
    if (weft_ep_combine_route(rank->ep, route, &combine, &brought->result, &op) != 0)
      return rank_fail(rank, "combine_route: %s", weft_last_error());
  }
  return true;
}

static void go_by_routes(struct rank *rank, void *arg) {
  (void)arg;
  weft_ep_route_t *route = NULL;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  struct draw draw = {.seed = 3, .count = RANKS, .topk = 4, .drop = 0.2f};
  struct brought brought;
  draw_make(&draw, &rank->setup);
  brought_new(&brought, &rank->setup);
  if (weft_ep_route_create(rank->ep, &options, &route) != 0)
    rank_fail(rank, "route_create: %s", weft_last_error());
  else if (operate_by_routes(rank, route, &draw, &brought, WARM_UP)) {
    sum = (struct allocations){0};
    logged = 0;
    bool good = operate_by_routes(rank, route, &draw, &brought, OPERATIONS);
    struct allocations made = sum;
    uint64_t lines = logged;
    if (good && operate_by_routes(rank, route, &draw, &brought, 4) &&
        made.own + made.others + made.maps + made.locks + made.getenvs + lines > 0)
      rank_fail(rank, "%d operations by routes made %" PRIu64 " + %" PRIu64 " allocations and %" PRIu64 " locks",
                OPERATIONS, made.own, made.others, made.locks);
  }
  weft_ep_route_free(route);
  brought_free(&brought);
  draw_free(&draw);
}

static void operations_by_routes_do_neither(void **state) {
  (void)state;
  static const int32_t ranks[RANKS] = {0, 1, 2};
  struct setup setup = {.capacity = 4};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, ranks, RANKS, go_by_routes, NULL);
  weft_store_close(setup.store);
}

// That the counting counts.
static void what_is_asked_for_is_counted(void **state) {
  (void)state;
  struct allocations counted = {0};
  weft_store_t *store;
  allocations_begin();
  assert_int_equal(weft_store_open_local(&store), 0);
  weft_store_close(store);
  allocations_end(&counted);
  assert_true(counted.own > 0);
  assert_true(counted.locks > 0);
}

int main(void) {
  if (!allocations_counted()) {
    print_message("skipped: a sanitizer has an allocator of its own\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_asked_for_is_counted),
      cmocka_unit_test(operations_ask_the_system_for_nothing),
      cmocka_unit_test(what_a_world_draws_asks_for_nothing),
      cmocka_unit_test(operations_by_routes_do_neither),
  };
  return cmocka_run_group_tests_name("ep_allocations", tests, NULL, NULL);
}
