// Joiners on CUDA memory, on a plug-in without a GPU, that have no first operation yet when all older ranks have left.
#include <poll.h>
#include <stdio.h>

#include "ep/gpu/support/fake_ranks.h"

enum { JOINERS = 3, RUN_BEFORE = 10, RUN_AFTER = 6, SLOW_MS = 20, SHORT_MS = 10 };

struct joiner {
  weft_ep_t *ep;
  bool patient; // waits in one call
  pthread_t thread;
  int rc, calls;
  char error[256];
};

static void *join_and_operate(void *arg) {
  struct joiner *joiner = arg;
  uint32_t timeout_ms = joiner->patient ? DEADLINE_MS : SHORT_MS;
  do { // what one call has come to holds for the next
    joiner->rc = weft_ep_activate(joiner->ep, timeout_ms);
    timeout_ms *= 2;
    joiner->calls++;
  } while (joiner->rc == WEFT_ERR_TIMEOUT && timeout_ms <= DEADLINE_MS);
  for (int i = 0; i < RUN_AFTER && joiner->rc == 0; i++)
    joiner->rc = weft_ep_barrier(joiner->ep);
  snprintf(joiner->error, sizeof joiner->error, "%s", weft_last_error());
  return NULL;
}

// A rank that has run operations, and joiners that are in the view.
static weft_ep_t *begin_handover(struct joiner *joiners) {
  weft_ep_t *ran = fake_open(fake_options(0, NULL, 0));
  assert_ok(weft_ep_activate(ran, DEADLINE_MS));
  for (int i = 0; i < RUN_BEFORE; i++)
    assert_ok(weft_ep_barrier(ran));
  for (int i = 0; i < JOINERS; i++) {
    joiners[i] = (struct joiner){.ep = fake_open(fake_options(1 + i, NULL, 0)), .patient = i == 0};
    assert_int_equal(pthread_create(&joiners[i].thread, NULL, join_and_operate, &joiners[i]), 0);
  }
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  uint32_t count = 0;
  while (count < 1 + JOINERS && !clock_passed(deadline_ns)) {
    assert_ok(weft_ep_committed_view(ran, NULL, NULL, 0, &count));
    poll(NULL, 0, 1);
  }
  assert_int_equal(count, 1 + JOINERS);
  return ran;
}

// All have operated, and come to an operation from `least` on. Ends what runs, and `left`, before it fails.
static void end_handover(struct joiner *joiners, uint64_t least, weft_ep_t *left) {
  uint64_t next[JOINERS];
  for (int i = 0; i < JOINERS; i++)
    pthread_join(joiners[i].thread, NULL);
  for (int i = 0; i < JOINERS; i++) {
    next[i] = weft_ep_next_op(joiners[i].ep);
    weft_ep_close(joiners[i].ep);
  }
  weft_ep_close(left);
  bool failed = false;
  for (int i = 0; i < JOINERS; i++) {
    if (joiners[i].rc != 0 || next[i] < least)
      print_error("rank %d is at operation %llu, should be at %llu or later, after %d calls to be activated: %s\n",
                  1 + i, (unsigned long long)next[i], (unsigned long long)least, joiners[i].calls, joiners[i].error);
    failed |= joiners[i].rc != 0 || next[i] < least;
  }
  assert_false(failed);
}

static void joiners_begin_where_all_who_ran_have_gone(void **state) {
  (void)state;
  struct joiner joiners[JOINERS];
  weft_ep_close(begin_handover(joiners));
  end_handover(joiners, RUN_AFTER, NULL);
}

// Whoever leaves runs operations until the view without it takes effect, however slowly, and fixes one for the joiners:
// they continue its operations, and begin none of their own.
static void joiners_go_on_from_one_that_leaves_slowly(void **state) {
  (void)state;
  struct joiner joiners[JOINERS];
  weft_ep_t *ran = begin_handover(joiners);
  int32_t self = weft_ep_rank(ran);
  assert_ok(weft_ep_disconnect(ran, &self, 1, DEADLINE_MS));
  while (weft_ep_is_active(ran)) {
    poll(NULL, 0, SLOW_MS);
    assert_ok(weft_ep_barrier(ran));
  }
  end_handover(joiners, weft_ep_next_op(ran), ran);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(joiners_begin_where_all_who_ran_have_gone, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(joiners_go_on_from_one_that_leaves_slowly, fake_open_store, fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_left_behind", tests, NULL, NULL);
}
