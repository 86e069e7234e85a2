// Membership changes in one step: ranks offer themselves, and a running rank admits several at once, removes others, or
// leaves the view unchanged.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/rank.h"

enum { DEADLINE_MS = 60000, FOUNDERS = 2, JOINERS = 3, ALL = FOUNDERS + JOINERS };

static void assert_ok(int rc) {
  if (rc != 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

static void assert_says(const char *words) {
  if (!strstr(weft_last_error(), words))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static int change(weft_ep_t *ep, const int32_t *add, uint32_t num_add, const int32_t *remove, uint32_t num_remove,
                  uint32_t timeout_ms) {
  struct weft_ep_change_args wanted = WEFT_EP_CHANGE_ARGS_INIT;
  wanted.add = add;
  wanted.num_add = num_add;
  wanted.remove = remove;
  wanted.num_remove = num_remove;
  return weft_ep_change(ep, &wanted, timeout_ms);
}

static uint64_t committed(weft_ep_t *ep, uint32_t *count) {
  uint64_t epoch = 0;
  assert_ok(weft_ep_committed_view(ep, &epoch, NULL, 0, count));
  return epoch;
}

// --- Ranks that operate, in threads.

struct stage {
  struct setup setup;
  struct rank rank[ALL];
  pthread_t thread[ALL];
  _Atomic bool go[ALL], ready[ALL], failed[ALL];
  _Atomic int founded;
  const int32_t *last; // the view in which they end
  uint32_t num_last;
};

struct actor {
  struct stage *stage;
  int32_t index;
};

// Until the last view is there and all know it; or this rank is out.
static bool operate_to_the_end(struct stage *stage, struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (weft_ep_is_active(rank->ep) && rank->info.mark < 1) {
    weft_ep_set_mark(rank->ep, rank_sees(rank, stage->last, stage->num_last));
    if (!rank_operate(rank))
      return false;
    if (clock_passed(deadline))
      return rank_fail(rank, "the last view did not come");
  }
  return true;
}

static void *found_and_operate(void *arg) {
  static const int32_t founders[FOUNDERS] = {0, 1};
  struct actor *actor = arg;
  struct stage *stage = actor->stage;
  struct rank *rank = &stage->rank[actor->index];
  bool ok = rank_open(rank, &stage->setup, actor->index, founders, FOUNDERS) && rank_activate(rank);
  atomic_fetch_add(&stage->founded, 1);
  ok = ok && operate_to_the_end(stage, rank);
  atomic_store(&stage->failed[actor->index], !ok);
  return NULL;
}

static void *offer_and_operate(void *arg) {
  struct actor *actor = arg;
  struct stage *stage = actor->stage;
  struct rank *rank = &stage->rank[actor->index];
  uint64_t op = UINT64_MAX;
  bool ok = rank_open(rank, &stage->setup, actor->index, NULL, 0);
  if (ok && weft_ep_offer(rank->ep, DEADLINE_MS) != 0)
    ok = rank_fail(rank, "offer: %s", weft_last_error());
  atomic_store(&stage->ready[actor->index], true);
  if (ok && weft_ep_await_start(rank->ep, WEFT_WAIT_FOREVER, &op) != 0)
    ok = rank_fail(rank, "await_start: %s", weft_last_error());
  if (ok && (op != weft_ep_next_op(rank->ep) || !weft_ep_is_active(rank->ep)))
    ok = rank_fail(rank, "it is not active, or its first operation is not %llu", (unsigned long long)op);
  ok = ok && operate_to_the_end(stage, rank);
  atomic_store(&stage->failed[actor->index], !ok);
  return NULL;
}

static void await(const struct stage *stage, _Atomic bool *flag) {
  (void)stage;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!atomic_load(flag) && !clock_passed(deadline))
    sched_yield();
  assert_true(atomic_load(flag));
}

// One proposer, which is the main thread's: rank 0 does not operate in a thread of its own, so it is played here.
static void three_come_and_one_goes_in_one_view(void **state) {
  (void)state;
  static const int32_t founders[FOUNDERS] = {0, 1}, add[JOINERS] = {2, 3, 4}, remove[] = {1}, last[] = {0, 2, 3, 4};
  static struct actor actors[ALL];
  for (int round = 0; round < 5; round++) {
    struct stage *stage = calloc(1, sizeof *stage);
    stage->setup = (struct setup){.drop = 0.1f, .late_weights = round % 2 == 1};
    stage->last = last;
    stage->num_last = 4;
    assert_ok(weft_store_open_local(&stage->setup.store));
    for (int i = 0; i < ALL; i++)
      actors[i] = (struct actor){stage, i};
    assert_int_equal(pthread_create(&stage->thread[1], NULL, found_and_operate, &actors[1]), 0);
    struct rank *self = &stage->rank[0];
    assert_true(rank_open(self, &stage->setup, 0, founders, FOUNDERS) && rank_activate(self));
    for (int i = FOUNDERS; i < ALL; i++)
      assert_int_equal(pthread_create(&stage->thread[i], NULL, offer_and_operate, &actors[i]), 0);
    if (round == 0)
      for (int i = FOUNDERS; i < ALL; i++)
        await(stage, &stage->ready[i]); // else the change waits for them
    uint32_t count;
    uint64_t before = committed(self->ep, &count);
    assert_int_equal(count, FOUNDERS);
    assert_ok(change(self->ep, add, JOINERS, remove, 1, DEADLINE_MS)); // no operation runs meanwhile
    assert_int_equal(committed(self->ep, &count), before + 1);
    assert_int_equal(count, 4);
    bool ok = operate_to_the_end(stage, self);
    for (int i = 1; i < ALL; i++)
      pthread_join(stage->thread[i], NULL);
    for (int i = 0; i < ALL; i++)
      rank_close(&stage->rank[i]);
    weft_store_close(stage->setup.store);
    for (int i = 0; i < ALL; i++)
      if (stage->rank[i].error[0])
        fail_msg("%s", stage->rank[i].error);
    assert_true(ok);
    free(stage);
  }
}

// --- One rank that is active, and others beside it, all played by this thread.

struct group_of {
  weft_store_t *store;
  weft_ep_t *ep[ALL];
};

static weft_ep_t *open_rank(struct group_of *group, int32_t rank) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = group->store;
  options.rank = rank;
  options.capacity = 8;
  options.hidden = 128;
  options.max_tokens = 4;
  assert_ok(weft_ep_open(&group->ep[rank], &options, DEADLINE_MS));
  return group->ep[rank];
}

static void open_group(struct group_of *group) {
  *group = (struct group_of){0};
  assert_ok(weft_store_open_local(&group->store));
  assert_ok(weft_ep_activate(open_rank(group, 0), DEADLINE_MS));
}

static void close_group(struct group_of *group) {
  for (int i = ALL - 1; i >= 0; i--)
    weft_ep_close(group->ep[i]);
  weft_store_close(group->store);
}

static void a_grow_that_fails_leaves_the_view(void **state) {
  (void)state;
  static const int32_t add[] = {1, 2}, one = 1, none = 0;
  struct group_of group;
  uint32_t count;
  open_group(&group);
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS));
  open_rank(&group, 2); // it has claimed its rank, and offers nothing
  assert_int_equal(change(group.ep[0], add, 2, NULL, 0, 0), WEFT_ERR_TIMEOUT);
  assert_int_equal(change(group.ep[0], add, 2, NULL, 0, 50), WEFT_ERR_TIMEOUT);
  assert_says("missing: 2");
  assert_int_equal(committed(group.ep[0], &count), 1);
  assert_int_equal(count, 1);
  assert_int_equal(weft_ep_await_start(group.ep[1], 0, NULL), WEFT_ERR_TIMEOUT); // its offer stands
  assert_int_equal(weft_ep_await_start(group.ep[2], 0, NULL), WEFT_ERR_NOT_CONNECTED);
  assert_int_equal(change(group.ep[1], add, 2, NULL, 0, DEADLINE_MS), WEFT_ERR_NOT_CONNECTED);
  assert_int_equal(change(group.ep[1], NULL, 0, &none, 1, DEADLINE_MS), WEFT_ERR_NOT_CONNECTED);
  assert_ok(weft_ep_offer(group.ep[1], DEADLINE_MS)); // once more is no error
  assert_ok(weft_ep_offer(group.ep[2], DEADLINE_MS));
  assert_ok(change(group.ep[0], add, 2, NULL, 0, DEADLINE_MS));
  assert_ok(change(group.ep[0], add, 2, NULL, 0, 0)); // as asked for
  assert_int_equal(committed(group.ep[0], &count), 2);
  assert_int_equal(count, 3);
  assert_int_equal(weft_ep_withdraw(group.ep[0], one, DEADLINE_MS), WEFT_ERR_CONFLICT);
  close_group(&group);
}

static void an_offer_is_taken_back(void **state) {
  (void)state;
  static const int32_t add[] = {1, 2};
  struct group_of group;
  uint32_t count;
  open_group(&group);
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS));
  assert_ok(weft_ep_offer(open_rank(&group, 2), DEADLINE_MS));
  assert_ok(weft_ep_withdraw(group.ep[0], 1, DEADLINE_MS));                // another's
  assert_int_equal(weft_ep_withdraw(group.ep[2], 2, 0), WEFT_ERR_TIMEOUT); // its own, which stands then
  assert_int_equal(weft_ep_await_start(group.ep[2], 50, NULL), WEFT_ERR_TIMEOUT);
  assert_ok(weft_ep_withdraw(group.ep[2], 2, DEADLINE_MS));
  assert_int_equal(weft_ep_withdraw(group.ep[2], 2, DEADLINE_MS), WEFT_ERR_NOT_FOUND);
  assert_int_equal(weft_ep_withdraw(group.ep[2], 8, DEADLINE_MS), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_await_start(group.ep[2], DEADLINE_MS, NULL), WEFT_ERR_NOT_CONNECTED);
  int rc;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while ((rc = weft_ep_await_start(group.ep[1], 0, NULL)) == WEFT_ERR_TIMEOUT && !clock_passed(deadline))
    sched_yield(); // until it has noticed
  assert_int_equal(rc, WEFT_ERR_NOT_CONNECTED);
  assert_int_equal(change(group.ep[0], add, 2, NULL, 0, 20), WEFT_ERR_TIMEOUT);
  assert_says("missing: 1, 2");
  assert_ok(weft_ep_offer(group.ep[1], DEADLINE_MS));
  assert_ok(weft_ep_offer(group.ep[2], DEADLINE_MS));
  assert_ok(change(group.ep[0], add, 2, NULL, 0, DEADLINE_MS));
  committed(group.ep[0], &count);
  assert_int_equal(count, 3);
  close_group(&group);
}

// A joiner that dies after its offer is not taken in, and holds nobody else up.
static void one_that_goes_after_its_offer_is_missing(void **state) {
  (void)state;
  static const int32_t add[] = {1, 2};
  struct group_of group;
  open_group(&group);
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS));
  assert_ok(weft_ep_offer(open_rank(&group, 2), DEADLINE_MS));
  weft_ep_close(group.ep[1]);
  group.ep[1] = NULL;
  assert_int_equal(change(group.ep[0], add, 2, NULL, 0, 200), WEFT_ERR_TIMEOUT);
  assert_says("missing: 1");
  assert_ok(weft_ep_offer(open_rank(&group, 3), DEADLINE_MS)); // it waits for no link to the one that has gone
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS)); // the next life of the rank
  assert_ok(change(group.ep[0], add, 2, NULL, 0, DEADLINE_MS));
  close_group(&group);
}

static void a_joiner_takes_itself_in(void **state) {
  (void)state;
  static const int32_t self = 1;
  struct group_of group;
  uint32_t count;
  open_group(&group);
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS));
  assert_ok(change(group.ep[1], &self, 1, NULL, 0, DEADLINE_MS));
  committed(group.ep[1], &count);
  assert_int_equal(count, 2);
  assert_int_equal(weft_ep_await_start(group.ep[1], 20, NULL), WEFT_ERR_TIMEOUT); // rank 0 runs no operation
  assert_says("first operation");
  const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  int32_t counts[2];
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.counts = counts;
  uint64_t op, first = 0;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (weft_ep_await_start(group.ep[1], 0, &first) == WEFT_ERR_TIMEOUT && !clock_passed(deadline)) {
    assert_ok(weft_ep_dispatch(group.ep[0], &none, &recv, NULL, &op));
    assert_ok(weft_ep_finish(group.ep[0], op));
    sched_yield();
  }
  assert_true(weft_ep_is_active(group.ep[1]));
  assert_int_equal(first, weft_ep_next_op(group.ep[1]));
  assert_int_equal(weft_ep_offer(group.ep[1], 0), WEFT_ERR_EXISTS);
  close_group(&group);
}

// Any two ranks of a view have a link, in whatever way they joined.
static void a_rank_that_offers_is_connected_to_all_ranks_that_did_before(void **state) {
  (void)state;
  static const int32_t before[] = {0, 1}, active[] = {0, 1, 2};
  struct group_of group;
  open_group(&group);
  assert_int_equal(weft_ep_connect(open_rank(&group, 1), before, 1, 0), WEFT_ERR_TIMEOUT);
  assert_says("not connected: 0");
  assert_ok(weft_ep_offer(group.ep[1], DEADLINE_MS));
  assert_ok(weft_ep_offer(open_rank(&group, 2), DEADLINE_MS));
  assert_ok(weft_ep_connect(group.ep[2], before, 2, 0));
  assert_ok(change(group.ep[0], before + 1, 1, NULL, 0, DEADLINE_MS));
  assert_ok(weft_ep_offer(open_rank(&group, 3), DEADLINE_MS)); // of the two that offered, one is in the view
  assert_ok(weft_ep_connect(group.ep[3], active, 3, 0));
  close_group(&group);
}

static void wrong_arguments_are_named(void **state) {
  (void)state;
  static const int32_t twice[] = {1, 1}, far = 8, one = 1;
  struct group_of group;
  open_group(&group);
  struct weft_ep_change_args wrong = {0};
  assert_int_equal(weft_ep_change(NULL, &wrong, 0), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_change(group.ep[0], NULL, 0), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_change(group.ep[0], &wrong, 0), WEFT_ERR_INVALID);
  weft_ep_change_args_init(&wrong, sizeof wrong);
  wrong.flags = 4;
  assert_int_equal(weft_ep_change(group.ep[0], &wrong, 0), WEFT_ERR_INVALID);
  assert_says("0x4");
  wrong.flags = 0;
  wrong.reserved = 1;
  assert_int_equal(weft_ep_change(group.ep[0], &wrong, 0), WEFT_ERR_INVALID);
  assert_int_equal(change(group.ep[0], NULL, 1, NULL, 0, 0), WEFT_ERR_INVALID);
  assert_int_equal(change(group.ep[0], twice, 2, NULL, 0, 0), WEFT_ERR_INVALID);
  assert_int_equal(change(group.ep[0], &one, 1, &one, 1, 0), WEFT_ERR_INVALID);
  assert_says("twice");
  assert_int_equal(change(group.ep[0], &far, 1, NULL, 0, 0), WEFT_ERR_INVALID);
  assert_ok(change(group.ep[0], NULL, 0, &one, 1, 0)); // it is not in the view
  assert_ok(change(group.ep[0], NULL, 0, NULL, 0, 0));
  assert_int_equal(weft_ep_offer(NULL, 0), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_withdraw(NULL, 0, 0), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_await_start(NULL, 0, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_withdraw(group.ep[0], 1, 0), WEFT_ERR_NOT_FOUND);
  uint64_t op = 7;
  assert_ok(weft_ep_await_start(group.ep[0], 0, &op));
  assert_int_equal(op, 0);
  close_group(&group);
}

static void waits_are_interrupted(void **state) {
  (void)state;
  static const int32_t absent = 1;
  struct group_of group;
  open_group(&group);
  weft_ep_interrupt(group.ep[0]);
  assert_int_equal(change(group.ep[0], &absent, 1, NULL, 0, WEFT_WAIT_FOREVER), WEFT_ERR_CANCELED);
  assert_ok(weft_ep_offer(open_rank(&group, 1), DEADLINE_MS));
  weft_ep_interrupt(group.ep[1]);
  assert_int_equal(weft_ep_await_start(group.ep[1], WEFT_WAIT_FOREVER, NULL), WEFT_ERR_CANCELED);
  assert_ok(change(group.ep[0], &absent, 1, NULL, 0, DEADLINE_MS)); // its offer stood
  weft_ep_interrupt(group.ep[1]);
  assert_int_equal(weft_ep_await_start(group.ep[1], WEFT_WAIT_FOREVER, NULL), WEFT_ERR_CANCELED);
  close_group(&group);
}

// After a TIMEOUT of a connect the links to the ranks that came stay, and nothing else; the same call goes on.
static void a_connect_that_fails_keeps_the_ranks_that_came(void **state) {
  (void)state;
  static const int32_t both[] = {1, 2};
  struct group_of group;
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  open_group(&group);
  open_rank(&group, 1);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  do { // a rank that waits for a processor is not there within one of them
    assert_int_equal(weft_ep_connect(group.ep[0], both, 2, 50), WEFT_ERR_TIMEOUT);
    assert_ok(weft_ep_get_stats(group.ep[0], &stats));
  } while (stats.connected < 1 && !clock_passed(deadline));
  assert_says("missing: 2");
  assert_int_equal(stats.connected, 1);
  uint64_t bytes = stats.window_bytes;
  assert_int_equal(weft_ep_connect(group.ep[0], both, 2, 20), WEFT_ERR_TIMEOUT);
  assert_ok(weft_ep_get_stats(group.ep[0], &stats));
  assert_int_equal(stats.window_bytes, bytes);
  open_rank(&group, 2);
  assert_ok(weft_ep_connect(group.ep[0], both, 2, DEADLINE_MS));
  assert_ok(weft_ep_get_stats(group.ep[0], &stats));
  assert_int_equal(stats.connected, 2);
  close_group(&group);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_come_and_one_goes_in_one_view),
      cmocka_unit_test(a_grow_that_fails_leaves_the_view),
      cmocka_unit_test(an_offer_is_taken_back),
      cmocka_unit_test(one_that_goes_after_its_offer_is_missing),
      cmocka_unit_test(a_joiner_takes_itself_in),
      cmocka_unit_test(a_rank_that_offers_is_connected_to_all_ranks_that_did_before),
      cmocka_unit_test(wrong_arguments_are_named),
      cmocka_unit_test(waits_are_interrupted),
      cmocka_unit_test(a_connect_that_fails_keeps_the_ranks_that_came),
  };
  return cmocka_run_group_tests_name("ep_offer", tests, NULL, NULL);
}
