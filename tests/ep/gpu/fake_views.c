// The host side of views on CUDA memory, on a plug-in without a GPU: ranks that join, leave, fall silent or cannot be
// reached.
#include <poll.h>
#include <sched.h>

#include "ep/gpu/support/fake_ranks.h"
#include "ep/view/views.h"

enum { CHURN = 70, VISITS = 6 }; // VISITS: make more views than a device has room for

static atomic_bool holding;

// Operates until the view has `count` ranks, and this many links are left.
static void operate_until(weft_ep_t **eps, uint32_t num, uint32_t count, uint64_t connected) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  for (;;) {
    fake_operate(eps, num, &info);
    struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
    assert_ok(weft_ep_get_stats(eps[0], &stats));
    uint64_t epoch;
    uint32_t now;
    assert_ok(weft_ep_view(eps[0], &epoch, NULL, 0, &now));
    if (now == count && stats.connected == connected)
      return;
    if (clock_passed(deadline_ns))
      fail_msg("%u ranks and %llu links, not %u and %llu, within %d ms", now, (unsigned long long)stats.connected,
               count, (unsigned long long)connected, DEADLINE_MS);
  }
}

// Operates until `*reported`, a counter of `events`, is at least `count`; `events` counts the first rank's events.
static void operate_until_reported(weft_ep_t **eps, struct fake_events *events, const uint64_t *reported,
                                   uint64_t count) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (fake_take_events(eps[0], events), *reported < count) {
    fake_operate(eps, 2, NULL);
    if (clock_passed(deadline_ns))
      fail_msg("%llu events were reported, not %llu, within %d ms", (unsigned long long)*reported,
               (unsigned long long)count, DEADLINE_MS);
  }
}

// More joins than there are seats: each is given back when no view needs it any more.
static void ranks_join_and_leave_while_others_operate(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct fake_events events = {0};
  fake_found(eps, 2);
  for (int round = 0; round < CHURN; round++) {
    fake_join(eps, 3, fake_options(5, NULL, 0));
    operate_until(eps, 3, 3, 2);
    const int32_t self = 5;
    assert_ok(weft_ep_disconnect(eps[2], &self, 1, DEADLINE_MS));
    while (weft_ep_is_active(eps[2]))
      fake_operate(eps, 3, NULL);
    uint64_t op;
    struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
    assert_int_equal(weft_ep_dispatch(eps[2], &none, fake_no_rows(), NULL, &op), WEFT_ERR_FENCED);
    weft_ep_close(eps[2]);
    operate_until(eps, 2, 2, 1);
    // The watcher keeps at most DEVICE_ACTIVATIONS that it has not reported, and may get no processor for long.
    operate_until_reported(eps, &events, &events.activated, 3 + 2 * (uint64_t)round);
  }
  operate_until_reported(eps, &events, &events.released, CHURN);
  assert_int_equal(events.released, CHURN);
  assert_int_equal(events.lost, 0);
  assert_int_equal(events.activated, 1 + 2 * CHURN);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_get_stats(eps[1], &stats));
  assert_int_equal(stats.activations, 1 + 2 * CHURN);
  weft_ep_close(eps[0]);
  weft_ep_close(eps[1]);
}

static void a_first_view_that_no_kernel_can_run_in_is_refused_with_the_reason(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(fake_options(0, NULL, 0));
  setenv("FAKE_MEMBERS", "0", 1);
  int rc = weft_ep_activate(ep, DEADLINE_MS);
  unsetenv("FAKE_MEMBERS");
  assert_int_equal(rc, WEFT_ERR_LIMIT);
  assert_says("did not reach the GPU: too many ranks");
  weft_ep_close(ep);
}

static uint32_t agreed_count(weft_ep_t *ep) {
  uint32_t count;
  assert_ok(weft_ep_committed_view(ep, NULL, NULL, 0, &count));
  return count;
}

// Asks until the agreed view has `count` ranks. Nobody runs operations, so no call succeeds. Each has more time than
// the one before: a call that has too little for a handshake comes no nearer.
static void ask_until_agreed(weft_ep_t *joiner, uint32_t count) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t time_ms = 20; agreed_count(joiner) != count && !clock_passed(deadline_ns); time_ms += time_ms / 2)
    assert_int_equal(weft_ep_activate(joiner, time_ms), WEFT_ERR_TIMEOUT);
  assert_int_equal(agreed_count(joiner), count);
}

// It was taken in, and all others have gone before they had fixed its first operation: it asks again, and begins.
static void a_joiner_that_is_left_alone_begins(void **state) {
  (void)state;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_options options = fake_options(0, NULL, 0);
  weft_ep_t *ran = fake_open(options);
  assert_ok(weft_ep_activate(ran, DEADLINE_MS));
  options.rank = 1;
  weft_ep_t *joiner = fake_open(options);
  ask_until_agreed(joiner, 2);
  weft_ep_close(ran);
  while (agreed_count(joiner) != 1 && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_ok(weft_ep_activate(joiner, DEADLINE_MS));
  assert_int_equal(weft_ep_next_op(joiner), 0);
  for (int i = 0; i < 4; i++)
    assert_ok(weft_ep_barrier(joiner));
  weft_ep_close(joiner);
}

// Rank 2 comes and goes many times while `ep` runs no operation: two views each time.
static void visit_meanwhile(weft_ep_t *ep) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  uint32_t before = agreed_count(ep);
  for (int i = 0; i < VISITS; i++) {
    weft_ep_t *visitor = fake_open(fake_options(2, NULL, 0));
    ask_until_agreed(visitor, before + 1);
    while (agreed_count(ep) != before + 1 && !clock_passed(deadline_ns))
      poll(NULL, 0, 1);
    weft_ep_close(visitor);
    while (agreed_count(ep) != before && !clock_passed(deadline_ns))
      poll(NULL, 0, 1);
    assert_int_equal(agreed_count(ep), before);
  }
}

// As if joiners came without a pause: each view with one is held back for a moment.
static void *hold_back(void *arg) {
  struct ep_gpu *gpu = arg;
  while (atomic_load(&holding)) {
    pthread_mutex_lock(&gpu->lock);
    gpu->hold_until_ns = clock_deadline_ms(DEADLINE_MS);
    pthread_mutex_unlock(&gpu->lock);
    poll(NULL, 0, 0);
  }
  pthread_mutex_lock(&gpu->lock);
  gpu->hold_until_ns = 0;
  pthread_mutex_unlock(&gpu->lock);
  return NULL;
}

// The device takes the views that it had no room for when earlier ones have taken effect.
static void more_views_are_held_back_than_the_device_has_room_for(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  pthread_t holder;
  fake_found(eps, 1);
  atomic_store(&holding, true);
  assert_int_equal(pthread_create(&holder, NULL, hold_back, eps[0]->gpu), 0);
  visit_meanwhile(eps[0]);
  atomic_store(&holding, false);
  pthread_join(holder, NULL);
  fake_join(eps, 2, fake_options(1, NULL, 0));
  operate_until(eps, 2, 2, 1);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  fake_operate(eps, 2, &info);
  assert_int_equal(info.num_ranks, 2);
  assert_int_equal(info.num_lost, 0);
  weft_ep_close(eps[0]);
  weft_ep_close(eps[1]);
}

// The view in which the joiner begins is far from the one that has taken it in.
static void a_joiner_that_is_left_alone_after_many_views_begins(void **state) {
  (void)state;
  weft_ep_t *ran = fake_open(fake_options(0, NULL, 0));
  assert_ok(weft_ep_activate(ran, DEADLINE_MS));
  weft_ep_t *joiner = fake_open(fake_options(1, NULL, 0));
  ask_until_agreed(joiner, 2);
  visit_meanwhile(joiner);
  weft_ep_close(ran);
  assert_ok(weft_ep_activate(joiner, DEADLINE_MS));
  for (int i = 0; i < 4; i++)
    assert_ok(weft_ep_barrier(joiner));
  weft_ep_close(joiner);
}

// Rank 2 falls silent: kernels give it up, the watcher reports it, and a view without it takes effect. The others have
// time enough to come on a busy machine, which has been seen to take 200 ms from one of them.
static void a_silent_rank_is_put_out(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct fake_events events = {0};
  fake_found_with(eps, 3, 1500);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  int32_t lost = -1;
  info.lost = &lost;
  info.lost_cap = 1;
  fake_operate(eps, 2, &info);
  assert_int_equal(info.num_lost, 1);
  assert_int_equal(lost, 2);
  operate_until(eps, 2, 2, 1);
  fake_take_events(eps[0], &events);
  fake_take_events(eps[1], &events);
  assert_int_equal(events.lost >= 1, 1);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t op;
  int rc = 0;
  while ((rc = weft_ep_is_active(eps[2]) ? ep_check_active(eps[2]) : WEFT_ERR_FENCED) == 0 &&
         !clock_passed(deadline_ns))
    fake_operate(eps, 2, NULL);
  assert_int_equal(rc, WEFT_ERR_FENCED);
  assert_int_equal(weft_ep_dispatch(eps[2], &none, fake_no_rows(), NULL, &op), WEFT_ERR_FENCED);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

// Waits until `ep`, which runs no operation meanwhile, is ready for a view with both ranks after the one without
// rank 1.
static void await_next_life(weft_ep_t *ep) {
  uint64_t epoch = 0, deadline_ns = clock_deadline_ms(DEADLINE_MS);
  uint32_t count = 0;
  while ((count != 2 || epoch < 3 || atomic_load(&ep->ready) < epoch) && !clock_passed(deadline_ns)) {
    assert_ok(weft_ep_committed_view(ep, &epoch, NULL, 0, &count));
    sched_yield();
  }
  assert_int_equal(count, 2);
}

// Whether the kernels send the connected rank no tokens.
static bool is_masked(weft_ep_t *ep, int32_t rank) {
  const struct ep_link *link = ep_link_find(ep, rank, 0);
  assert_non_null(link);
  return (ep->gpu->control.masked >> link->device.seat & 1) != 0;
}

// Operations go from the view with the one life of rank 1 to the view with the next one.
static void a_mask_ends_with_the_life_that_it_was_set_for(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  struct fake_activation activation;
  enum weft_ep_rank_state states[2];
  fake_found(eps, 2);
  assert_ok(weft_ep_mask_update(eps[0], 1, true));
  assert_true(is_masked(eps[0], 1));
  weft_ep_close(eps[1]);
  eps[1] = fake_open(fake_options(1, NULL, 0));
  fake_begin(&activation, eps[1]);
  await_next_life(eps[0]);
  fake_take_in(eps, 2, &activation);
  operate_until(eps, 2, 2, 1);
  assert_ok(weft_ep_states(eps[0], states, 2, NULL));
  assert_int_equal(states[1], WEFT_EP_ACTIVE);
  assert_false(is_masked(eps[0], 1));
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

// Two of three fall silent while areas of the view before, of four, are still in use: most of the view that they were
// missed in, so rank 0 is the one astray. They would be half of the view before, and put out.
static void the_lost_count_in_the_view_that_lost_them(void **state) {
  (void)state;
  static const int32_t leaver = 3;
  weft_ep_t *eps[4];
  setenv("FAKE_LAGS", "1", 1);
  fake_found_with(eps, 4, 1000);
  assert_ok(weft_ep_disconnect(eps[3], &leaver, 1, DEADLINE_MS));
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  do
    fake_operate(eps, 4, &info);
  while (info.num_ranks == 4);
  assert_int_equal(info.num_ranks, 3);
  assert_int_equal(eps[0]->gpu->num_steps, 2); // both views are in use
  assert_ok(weft_ep_await(eps[0], fake_launch(eps[0]), &info, NULL, DEADLINE_MS));
  assert_int_equal(info.num_lost, 2);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (int32_t rank = 1; rank <= 2; rank++) {
    struct ep_link *link = atomic_load(&eps[0]->links.by_rank[rank]); // which stays, as its view does
    while (ep_link_up(link) && !clock_passed(deadline_ns))
      poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&link->state), EP_LINK_DOUBTED);
  }
  for (int i = 0; i < 4; i++)
    weft_ep_close(eps[i]);
  unsetenv("FAKE_LAGS");
}

// Launches an operation on the first, and on each of the others from its first operation on, until that has run.
static void operate_with_starters(weft_ep_t **eps, uint32_t count, bool *started) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), op = fake_launch(eps[0]);
  while (weft_ep_await(eps[0], op, NULL, NULL, 5) == WEFT_ERR_TIMEOUT && !clock_passed(deadline_ns))
    for (uint32_t i = 1; i < count; i++) {
      started[i] = started[i] || weft_ep_await_start(eps[i], 0, NULL) == 0;
      if (started[i] && weft_ep_next_op(eps[i]) <= op)
        fake_launch(eps[i]);
    }
  for (uint32_t i = 1; i < count; i++)
    started[i] = started[i] || weft_ep_await_start(eps[i], 0, NULL) == 0;
}

// Two offer themselves, one view takes both in and is agreed on while nothing runs; it takes effect as kernels run.
static void ranks_are_taken_in_together(void **state) {
  (void)state;
  static const int32_t add[] = {1, 2};
  weft_ep_t *eps[3];
  bool started[3] = {true, false, false};
  uint32_t count;
  struct weft_ep_change_args change = WEFT_EP_CHANGE_ARGS_INIT;
  change.add = add;
  change.num_add = 2;
  fake_found(eps, 1);
  eps[1] = fake_open(fake_options(1, NULL, 0));
  eps[2] = fake_open(fake_options(2, NULL, 0));
  assert_ok(weft_ep_offer(eps[1], DEADLINE_MS));
  assert_int_equal(weft_ep_change(eps[0], &change, 20), WEFT_ERR_TIMEOUT);
  assert_says("missing: 2");
  assert_ok(weft_ep_offer(eps[2], DEADLINE_MS));
  assert_ok(weft_ep_change(eps[0], &change, DEADLINE_MS));
  assert_ok(weft_ep_committed_view(eps[0], NULL, NULL, 0, &count));
  assert_int_equal(count, 3);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while ((!started[1] || !started[2]) && !clock_passed(deadline_ns))
    operate_with_starters(eps, 3, started);
  assert_true(started[1] && started[2]);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  fake_operate(eps, 3, &info);
  fake_operate(eps, 3, &info);
  assert_int_equal(info.num_ranks, 3);
  assert_int_equal(info.num_lost, 0);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

static void ranks_on_other_memory_or_out_of_reach_do_not_connect(void **state) {
  (void)state;
  struct weft_ep_options options = fake_options(0, NULL, 0);
  weft_ep_t *first = fake_open(options);
  options.rank = 1;
  options.memory = WEFT_EP_MEMORY_HOST;
  weft_ep_t *second = fake_open(options);
  const int32_t one = 1, zero = 0;
  assert_int_equal(weft_ep_connect(first, &one, 1, 5000), WEFT_ERR_VERSION);
  assert_says("rank 1 runs on host memory, this rank on CUDA memory");
  assert_int_equal(weft_ep_connect(second, &zero, 1, 5000), WEFT_ERR_VERSION);
  assert_says("rank 0 runs on CUDA memory, this rank on host memory");
  weft_ep_close(second);
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.device = 1;
  second = fake_open(options);
  setenv("FAKE_APART", "1", 1);
  assert_int_equal(weft_ep_connect(first, &one, 1, 5000), WEFT_ERR_UNSUPPORTED);
  assert_says("the fakes are apart");
  unsetenv("FAKE_APART");
  assert_ok(weft_ep_connect(first, &one, 1, 5000));
  weft_ep_close(second);
  options.device = 2;
  assert_int_equal(weft_ep_open(&second, &options, 1000), WEFT_ERR_INVALID);
  assert_says("device is 2, but this process has 2");
  weft_ep_close(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(ranks_join_and_leave_while_others_operate, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(ranks_are_taken_in_together, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_first_view_that_no_kernel_can_run_in_is_refused_with_the_reason,
                                      fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_joiner_that_is_left_alone_begins, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(more_views_are_held_back_than_the_device_has_room_for, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(a_joiner_that_is_left_alone_after_many_views_begins, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(a_silent_rank_is_put_out, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_mask_ends_with_the_life_that_it_was_set_for, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(the_lost_count_in_the_view_that_lost_them, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(ranks_on_other_memory_or_out_of_reach_do_not_connect, fake_open_store,
                                      fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_views", tests, NULL, NULL);
}
