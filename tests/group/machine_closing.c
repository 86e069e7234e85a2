// Members leave and close, and many claim ranks at once.
#include "group/support/machine_suite.h"

#include <stdlib.h>
#include <string.h>

static void leaver_is_out_without_a_fence(void **state) {
  (void)state;
  struct world *w = suite_found(4, 3);
  group_machine_remove(world_member(w, 1)->machine, 1);
  suite_until_agreed(w, 2, SOON_MS);
  world_advance(w, 50);
  assert_int_equal(group_machine_standing(world_member(w, 1)->machine), GROUP_LEFT);
  assert_int_equal(suite_fenced(w), 0);
  assert_int_equal(world_keys(w, "/g/rank/"), 2);
  assert_int_equal(world_leases(w), 3); // two members' and the view's
  suite_end(w, true);
}

// Its call ends while the store carries the proposal out, and the answer is lost: it has asked for what comes true.
static void leaver_that_gave_up_is_out_without_a_fence(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 3);
    struct world_member *m = world_member(w, 1);
    world_set_faults(w, 0, 100);
    uint64_t leaving = group_machine_remove(m->machine, 1);
    for (int ms = 0; ms < SOON_MS && (!m->busy || m->request.kind != GROUP_REQUEST_TXN); ms++)
      world_advance(w, 1);
    group_machine_remove_end(m->machine, 1, leaving);
    while (m->busy)
      world_advance(w, 1);
    world_set_faults(w, 0, 0);
    suite_until_agreed(w, 2, SOON_MS);
    world_advance(w, 50);
    assert_int_equal(group_machine_standing(m->machine), GROUP_LEFT);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, true);
  }
}

// The watch was lost for good and everything is read again: a close that comes right then knows the store as it was,
// and must not go on proposing what it cannot see to have come true.
static void closing_before_the_watch_is_back_asks_for_little(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 1 + (uint32_t)(seed % 3));
    struct world_member *m = world_member(w, 0);
    world_advance(w, 100);
    m->watching = false;
    group_machine_watch(m->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESET});
    uint32_t before = m->num_requests;
    while (m->num_requests == before) // the read; its answer may have come as well
      world_advance(w, 1);
    assert_false(m->watching);
    before = m->num_requests;
    group_machine_close(m->machine, world_now(w) + 2000000000u);
    for (int ms = 0; ms < 3000 && !group_machine_closed(m->machine); ms++)
      world_advance(w, 1);
    assert_true(group_machine_closed(m->machine));
    assert_uint_in_range(m->num_requests - before, 1, 8);
    assert_int_equal(world_keys(w, "/g/rank/"), world_count(w) - 1);
    suite_end(w, true);
  }
}

static bool all_closed(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++)
    if (world_member(w, i)->machine && !group_machine_closed(world_member(w, i)->machine))
      return false;
  return true;
}

static void closing_all_at_once_leaves_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 6);
    assert_int_equal(group_machine_barrier(world_member(w, 2)->machine, "b"), 0);
    world_add(w, 20, 0);
    world_until(w, suite_all_claimed, SOON_MS, "a rank outside the view");
    for (uint32_t i = 0; i < 7; i++)
      group_machine_close(world_member(w, i)->machine, world_now(w) + 2000000000u);
    world_until(w, all_closed, 3000, "all close");
    assert_int_equal(world_keys(w, "/g/"), 0);
    assert_int_equal(world_leases(w), 0);
    suite_end(w, true);
  }
}

// One by one they would need a view each, which is more than a close has time for.
static void sixty_leave_together_in_few_views(void **state) {
  (void)state;
  enum { LEAVERS = 60 };
  for (uint64_t seed = 0; seed < 5; seed++) {
    struct world *w = suite_found(seed, LEAVERS);
    uint32_t requests = 0;
    uint32_t views = 0;
    for (uint32_t i = 0; i < LEAVERS; i++)
      requests -= world_member(w, i)->num_requests;
    for (uint32_t i = 0; i < LEAVERS; i++)
      group_machine_close(world_member(w, i)->machine, world_now(w) + 1000000000u);
    world_until(w, all_closed, 2000, "all close");
    for (uint32_t i = 0; i < LEAVERS; i++) {
      requests += world_member(w, i)->num_requests;
      views = world_member(w, i)->num_views > views ? world_member(w, i)->num_views : views;
    }
    assert_uint_in_range(views, 2, 8);
    assert_uint_in_range(requests, LEAVERS, 4 * LEAVERS);
    assert_int_equal(world_keys(w, "/g/"), 0);
    assert_int_equal(world_leases(w), 0);
    suite_end(w, false);
  }
}

static void any_rank_64_at_once_without_duplicate_or_gap(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 5; seed++) {
    struct world *w = world_new(seed, 128, TTL_S);
    bool taken[64] = {false};
    uint32_t requests = 0;
    for (uint32_t i = 0; i < 64; i++)
      world_add(w, -1, 0);
    world_until(w, suite_all_claimed, SOON_MS, "64 claims");
    for (uint32_t i = 0; i < 64; i++) {
      int32_t rank = group_machine_rank(world_member(w, i)->machine);
      assert_uint_in_range(rank, 0, 63);
      assert_false(taken[rank]);
      taken[rank] = true;
      requests += world_member(w, i)->num_requests;
    }
    assert_int_equal(world_keys(w, "/g/ticket/"), 0);
    assert_uint_in_range(requests, 64 * 4, 64 * 8); // read, watch, grant, ticket, claim; not 64 rounds each
    suite_end(w, true);
  }
}

int suite_run_closing(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaver_is_out_without_a_fence),
      cmocka_unit_test(leaver_that_gave_up_is_out_without_a_fence),
      cmocka_unit_test(closing_before_the_watch_is_back_asks_for_little),
      cmocka_unit_test(closing_all_at_once_leaves_nothing),
      cmocka_unit_test(sixty_leave_together_in_few_views),
      cmocka_unit_test(any_rank_64_at_once_without_duplicate_or_gap),
  };
  return cmocka_run_group_tests_name("closing", tests, NULL, NULL);
}
