// Ranks that disagree about a route: they use different routes, or only some of them know already that a rank joined.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/host/host.h"
#include "ep/host/support/route_ranks.h"
#include "support/local_store.h"

// --- ranks that go different ways ---

// What rank 1 does while the others dispatch by the route of operation n.
enum deviation { OTHER_ROUTE, NO_ROUTE, COMBINES, DEVIATIONS };

// An operation that ends with an error leaves the plan that it should have filled: the call can be repeated.
static bool fill_again(struct rank *rank, const struct draw *draw, const struct route_way *way,
                       weft_ep_route_t **routes, const struct brought *first, struct brought *second) {
  struct weft_ep_dispatch_args fill = way_dispatch(rank, draw, way, rank->x), kept = fill;
  uint64_t op;
  fill.route = routes[1];
  fill.flags |= WEFT_EP_DISPATCH_CHECK_ROUTE;
  kept.route = routes[0];
  kept.topk_idx = NULL;
  kept.topk_weights = NULL;
  if (weft_ep_route_plan(routes[1], draw->topk_idx[rank->index], draw->tokens[rank->index], NULL) != 0)
    return rank_fail(rank, "route_plan: %s", weft_last_error());
  way_recv(rank, way, second);
  int rc = weft_ep_dispatch(rank->ep, rank->index == 1 ? &kept : &fill, &second->recv, NULL, &op);
  if (rc != WEFT_ERR_PROTOCOL)
    return rank_fail(rank, "some fill and one does not: %s: %s", weft_err_name(rc), weft_last_error());
  return way_run(rank, draw, way, &fill, 4, second) && brought_equal(rank, first, second, "filled again");
}

static void deviate(struct rank *rank, void *arg) {
  (void)arg;
  struct draw draw = {.seed = 2, .count = RANKS, .topk = TOPK, .even = true};
  draw_make(&draw, &rank->setup);
  struct route_way way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16};
  struct brought first, second;
  brought_new(&first, &rank->setup);
  brought_new(&second, &rank->setup);
  weft_ep_route_t *routes[] = {route_make(rank, 1), route_make(rank, 1)};
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
  good = good && fill_again(rank, &draw, &way, routes, &first, &second);
  // A barrier among them reports this, and the others go on without its rows.
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
  route_ranks_run(store, "/ways/", (struct setup){0}, deviate, NULL);
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
  static const int32_t founders[] = {0, 1};
  struct rank *rank = arg;
  struct middle *middle = (struct middle *)((char *)(rank - rank->index) - offsetof(struct middle, ranks));
  struct draw draw = {.seed = 12, .count = RANKS, .topk = TOPK, .even = true};
  struct setup setup = rank->setup;
  struct brought brought;
  int32_t index = rank->index;
  while (index == 2 && atomic_load(&middle->filled) == 0)
    sched_yield();
  if (!rank_open(rank, &setup, index, index < 2 ? founders : NULL, index < 2 ? 2 : 0))
    return NULL;
  draw_make(&draw, &rank->setup);
  brought_new(&brought, &rank->setup);
  weft_ep_route_t *route = route_make(rank, 1);
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
    middle->ranks[i].setup = route_setup(store, "/middle/", (struct setup){.apart = true});
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
      cmocka_unit_test(ranks_that_go_different_ways_end_the_operation),
      cmocka_unit_test(a_joiner_in_the_middle_of_an_operation_ends_it_for_all),
  };
  return cmocka_run_group_tests_name("ep_route_disagree", tests, open_store, close_store);
}
