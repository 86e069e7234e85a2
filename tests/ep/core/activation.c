// The decision of when a view takes effect, tested on its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cmocka_all.h"

#include "ep/core/activation.h"

static uint64_t close_with(struct ep_activation *activation, uint64_t ready) {
  ep_activation_receive(activation, ready);
  return ep_activation_close(activation);
}

static void starts_with_the_given_operation_and_view(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 7, 3, 1);
  assert_int_equal(ep_activation_epoch(&a, 7), 3);
  assert_int_equal(ep_activation_epoch(&a, 8), 3);
}

static void lowest_ready_takes_effect_two_operations_later(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 1, 1);
  ep_activation_receive(&a, 5);
  ep_activation_receive(&a, 2);
  ep_activation_receive(&a, 9);
  assert_int_equal(ep_activation_close(&a), 2);
  assert_int_equal(ep_activation_epoch(&a, 1), 1);
  assert_int_equal(ep_activation_epoch(&a, 2), 2);
}

static void nothing_newer_changes_nothing(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 4, 1);
  assert_int_equal(close_with(&a, 4), 0);
  assert_int_equal(close_with(&a, 3), 0); // a rank that has not received view 4 yet, though it runs in it
  assert_int_equal(ep_activation_epoch(&a, 3), 4);
}

static void no_second_decision_while_one_is_on_its_way(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 1, 1);
  assert_int_equal(close_with(&a, 2), 2); // headers of 0: view 2 from operation 2 on
  assert_int_equal(close_with(&a, 3), 0); // headers of 1: not now
  assert_int_equal(ep_activation_epoch(&a, 2), 2);
  assert_int_equal(ep_activation_epoch(&a, 3), 2); // so a joiner that begins with 2 knows 3 too
  assert_int_equal(close_with(&a, 3), 3);
  assert_int_equal(ep_activation_epoch(&a, 4), 3);
}

static void adopting_forgets_what_was_received(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 1, 1);
  ep_activation_receive(&a, 1);
  ep_activation_adopt(&a, 2);
  assert_int_equal(ep_activation_epoch(&a, 0), 2);
  assert_int_equal(ep_activation_epoch(&a, 1), 2);
  assert_int_equal(close_with(&a, 4), 4);
}

static void nothing_received_changes_nothing(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 1, 1);
  assert_int_equal(ep_activation_close(&a), 0);
  assert_int_equal(ep_activation_epoch(&a, 2), 1);
}

static void a_view_waits_for_the_next_step(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 4, 1, 4); // operations 4 to 7 are a step
  assert_int_equal(close_with(&a, 2), 0);
  assert_int_equal(close_with(&a, 2), 0);
  assert_int_equal(close_with(&a, 3), 3); // headers of 6: view 3 from operation 8 on
  assert_int_equal(ep_activation_epoch(&a, 7), 1);
  assert_int_equal(ep_activation_epoch(&a, 8), 3);
  for (uint64_t op = 7; op < 10; op++)
    assert_int_equal(close_with(&a, 4), 0);
  assert_int_equal(close_with(&a, 4), 4); // headers of 10, from 12 on
}

// Steps of two operations: each decides at most one view, so no decision is lost because another is on its way.
static void the_shortest_steps_change_the_view_each_time(void **state) {
  (void)state;
  struct ep_activation a;
  ep_activation_init(&a, 0, 1, 2);
  for (uint64_t op = 0; op < 10; op += 2) {
    assert_int_equal(close_with(&a, op + 2), op + 2);
    assert_int_equal(close_with(&a, op + 3), 0);
    assert_int_equal(ep_activation_epoch(&a, op + 3), op + 2);
  }
}

// Members that receive the same headers, in any order, decide alike; a joiner that is sent (op, epoch) agrees from
// then on.
static void members_and_joiner_agree_for_ever(void **state) {
  (void)state;
  struct ep_activation old[3], joiner;
  uint64_t seed = 1, newest = 1, first = 0;
  for (int i = 0; i < 3; i++)
    ep_activation_init(&old[i], 0, 1, 1);
  for (uint64_t op = 0; op < 10000; op++) {
    uint64_t ready[3];
    for (int i = 0; i < 3; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      newest += (seed >> 60) == 0;
      ready[i] = newest - ((seed >> 40) % 3 < newest ? (seed >> 40) % 3 : 0);
    }
    uint64_t decided = 0;
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++)
        ep_activation_receive(&old[i], ready[(i + j) % 3]);
      decided = ep_activation_close(&old[i]);
    }
    if (first != 0 && op >= first) {
      for (int j = 0; j < 3; j++)
        ep_activation_receive(&joiner, ready[j]);
      ep_activation_close(&joiner);
      assert_int_equal(ep_activation_epoch(&joiner, op + 1), ep_activation_epoch(&old[0], op + 1));
      assert_int_equal(ep_activation_epoch(&joiner, op + 2), ep_activation_epoch(&old[0], op + 2));
    }
    if (first == 0 && decided != 0)
      ep_activation_init(&joiner, first = op + EP_ACTIVATION_LEAD, decided, 1);
  }
  assert_true(first != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_with_the_given_operation_and_view),
      cmocka_unit_test(lowest_ready_takes_effect_two_operations_later),
      cmocka_unit_test(nothing_newer_changes_nothing),
      cmocka_unit_test(no_second_decision_while_one_is_on_its_way),
      cmocka_unit_test(adopting_forgets_what_was_received),
      cmocka_unit_test(nothing_received_changes_nothing),
      cmocka_unit_test(a_view_waits_for_the_next_step),
      cmocka_unit_test(the_shortest_steps_change_the_view_each_time),
      cmocka_unit_test(members_and_joiner_agree_for_ever),
  };
  return cmocka_run_group_tests_name("ep_activation", tests, NULL, NULL);
}
