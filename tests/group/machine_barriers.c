// Barriers.
#include "group/machine_suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "group/view.h"

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
      cmocka_unit_test(barrier_does_not_wait_for_the_dead),
      cmocka_unit_test(barrier_outlives_an_empty_restart),
  };
  return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
