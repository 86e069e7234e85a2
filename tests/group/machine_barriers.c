// Barriers.
#include "group/support/machine_suite.h"

#include <stdlib.h>
#include <string.h>

#include "support/allocations.h"

static const char *barrier_name;

static bool barrier_complete(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++) {
    struct text missing = {0};
    struct world_member *m = world_member(w, i);
    bool pending = m->machine && group_machine_standing(m->machine) == GROUP_CLAIMED &&
                   group_machine_barrier_missing(m->machine, barrier_name, &missing);
    text_free(&missing);
    if (pending)
      return false;
  }
  return true;
}

static void barrier_waits_for_all_and_names_the_missing(void **state) {
  (void)state;
  struct world *w = suite_found(8, 4);
  barrier_name = "phase 1";
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_advance(w, 100);
  struct text missing = {0};
  assert_true(group_machine_barrier_missing(world_member(w, 0)->machine, barrier_name, &missing));
  assert_string_equal(missing.data, "3");
  text_free(&missing);
  assert_int_equal(group_machine_barrier(world_member(w, 3)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the barrier is complete");
  for (uint32_t i = 0; i < 4; i++)
    group_machine_barrier_end(world_member(w, i)->machine, barrier_name);
  barrier_name = "phase 2";
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the next barrier is complete");
  world_advance(w, 100);
  assert_int_equal(world_keys(w, "/g/barrier/phase 1/"), 0);
  suite_end(w, true);
}

// Without memory for the names of the members that are missing, they are missing all the same.
static void without_memory_a_barrier_is_not_complete(void **state) {
  (void)state;
  if (!allocations_counted())
    skip();
  struct world *w = suite_found(13, 2);
  const struct group_machine *first = world_member(w, 0)->machine;
  struct text missing = {0};
  assert_int_equal(group_machine_barrier(world_member(w, 0)->machine, "b"), 0);
  allocations_fail_here(1);
  assert_true(group_machine_barrier_missing(first, "b", &missing));
  assert_true(allocations_failed());
  text_free(&missing);
  suite_end(w, true);
}

// Everybody meets at barrier `name` and goes on.
static void meet(struct world *w, const char *name) {
  barrier_name = name;
  for (uint32_t i = 0; i < world_count(w); i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, name), 0);
  world_until(w, barrier_complete, SOON_MS, "the barrier is complete");
  for (uint32_t i = 0; i < world_count(w); i++)
    group_machine_barrier_end(world_member(w, i)->machine, name);
}

// The first barrier's keys may still be there when its name is used again: who came first would meet nobody.
static void a_name_serves_once(void **state) {
  (void)state;
  struct world *w = suite_found(11, 3);
  meet(w, "a");
  assert_int_equal(group_machine_barrier(world_member(w, 0)->machine, "a"), WEFT_ERR_EXISTS);
  meet(w, "b");
  meet(w, "c");
  world_advance(w, 1000);
  assert_int_equal(world_keys(w, "/g/barrier/a/"), 0);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, "a"), WEFT_ERR_EXISTS);
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, "b"), WEFT_ERR_EXISTS);
  }
  meet(w, "d");
  suite_end(w, true);
}

static void a_barrier_that_was_given_up_may_be_tried_again(void **state) {
  (void)state;
  struct world *w = suite_found(12, 3);
  assert_int_equal(group_machine_barrier(world_member(w, 0)->machine, "a"), 0);
  world_advance(w, 100);
  group_machine_barrier_end(world_member(w, 0)->machine, "a");
  world_advance(w, 100);
  assert_int_equal(world_keys(w, "/g/barrier/a/"), 0);
  meet(w, "a");
  suite_end(w, true);
}

// Member 2 has come and hears nothing more; the others come, go on and do not look back. It has to read everything anew
// then, and must find that they came.
static void a_member_that_reads_the_store_again_still_finds_who_came(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 3);
    struct world_member *late = world_member(w, 2);
    barrier_name = "b";
    assert_int_equal(group_machine_barrier(late->machine, barrier_name), 0);
    world_advance(w, 100);
    assert_int_equal(world_keys(w, "/g/barrier/b/"), 1);
    late->stopped = true;
    for (uint32_t i = 0; i < 2; i++)
      assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
    world_advance(w, 100);
    for (uint32_t i = 0; i < 2; i++) {
      struct text missing = {0};
      assert_false(group_machine_barrier_missing(world_member(w, i)->machine, barrier_name, &missing));
      group_machine_barrier_end(world_member(w, i)->machine, barrier_name);
    }
    world_advance(w, 500);
    late->watching = false;
    group_machine_watch(late->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESET});
    late->stopped = false;
    world_until(w, barrier_complete, SOON_MS, "the one that was late has found the others' keys");
    suite_end(w, true);
  }
}

// A rank's earlier process has come to the barrier and died, and its key is still there.
static void the_key_of_an_earlier_process_is_no_arrival(void **state) {
  (void)state;
  struct world *w = suite_found(14, 3);
  barrier_name = "b";
  world_write(w, "/g/barrier/b/2", "0123456789abcdef");
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_advance(w, 100);
  struct text missing = {0};
  assert_true(group_machine_barrier_missing(world_member(w, 0)->machine, barrier_name, &missing));
  assert_string_equal(missing.data, "2");
  text_free(&missing);
  assert_int_equal(group_machine_barrier(world_member(w, 2)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the barrier is complete");
  suite_end(w, true);
}

// Two threads of a member wait at two barriers. The one that completes must not take the key of the other one away.
static void a_barrier_goes_on_when_another_one_is_over(void **state) {
  (void)state;
  struct world *w = suite_found(15, 3);
  assert_int_equal(group_machine_barrier(world_member(w, 0)->machine, "a"), 0);
  meet(w, "b");
  world_advance(w, 500);
  assert_int_equal(world_keys(w, "/g/barrier/a/0"), 1);
  barrier_name = "a";
  for (uint32_t i = 1; i < 3; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the first barrier is complete too");
  suite_end(w, true);
}

static void barrier_does_not_wait_for_the_dead(void **state) {
  (void)state;
  struct world *w = suite_found(9, 4);
  barrier_name = "b";
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_kill(w, world_member(w, 3));
  world_until(w, barrier_complete, 3 * TTL_S * 1000, "the barrier is complete without the dead");
  suite_end(w, true);
}

static void barrier_outlives_an_empty_restart(void **state) {
  (void)state;
  struct world *w = suite_found(10, 3);
  barrier_name = "b";
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_advance(w, 100);
  world_restart_empty(w);
  world_advance(w, 100);
  assert_int_equal(group_machine_barrier(world_member(w, 2)->machine, barrier_name), 0);
  world_until(w, barrier_complete, 5000, "the barrier is complete");
  suite_end(w, false);
}

int suite_run_barriers(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barrier_waits_for_all_and_names_the_missing),
      cmocka_unit_test(without_memory_a_barrier_is_not_complete),
      cmocka_unit_test(a_name_serves_once),
      cmocka_unit_test(a_barrier_that_was_given_up_may_be_tried_again),
      cmocka_unit_test(a_member_that_reads_the_store_again_still_finds_who_came),
      cmocka_unit_test(the_key_of_an_earlier_process_is_no_arrival),
      cmocka_unit_test(a_barrier_goes_on_when_another_one_is_over),
      cmocka_unit_test(barrier_does_not_wait_for_the_dead),
      cmocka_unit_test(barrier_outlives_an_empty_restart),
  };
  return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
