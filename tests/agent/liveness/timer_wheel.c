// The wheel of timers against a plain list of due times, in random sequences of virtual time.
#include "agent/liveness/timer_wheel.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "cmocka_all.h"

enum { TIMERS = 300, STEPS = 20000, TICK = 16 };

struct alarm {
  struct wheel_timer timer; // first
  uint64_t due;             // 0: not set
};

struct scenario {
  struct wheel wheel;
  struct alarm alarms[TIMERS];
  uint64_t now, random;
};

static void set(struct scenario *scenario, struct alarm *alarm) {
  static const uint64_t reach[] = {1, 20, TICK * 40, TICK * WHEEL_SLOTS, TICK * WHEEL_SLOTS * 5};
  alarm->due = scenario->now + random_next(&scenario->random) % reach[random_next(&scenario->random) % 5] + 1;
  wheel_set(&scenario->wheel, &alarm->timer, alarm->due);
  assert_true(wheel_is_set(&alarm->timer));
}

static void change_one(struct scenario *scenario) {
  struct alarm *alarm = &scenario->alarms[random_next(&scenario->random) % TIMERS];
  if (random_next(&scenario->random) % 3) {
    set(scenario, alarm);
  } else {
    wheel_cancel(&scenario->wheel, &alarm->timer);
    alarm->due = 0;
  }
}

// Takes out what is due: nothing before its time, and what is left is not due by more than a tick.
static void expire(struct scenario *scenario) {
  struct wheel_timer *timer;
  while ((timer = wheel_expire(&scenario->wheel, scenario->now))) {
    struct alarm *alarm = (struct alarm *)timer;
    assert_true(alarm->due != 0 && alarm->due <= scenario->now);
    assert_false(wheel_is_set(timer));
    alarm->due = 0;
    if (random_next(&scenario->random) % 2)
      set(scenario, alarm);
    if (random_next(&scenario->random) % 4 == 0)
      change_one(scenario);
  }
  uint64_t earliest = UINT64_MAX;
  for (int i = 0; i < TIMERS; i++)
    if (scenario->alarms[i].due && scenario->alarms[i].due < earliest)
      earliest = scenario->alarms[i].due;
  if (earliest == UINT64_MAX) {
    assert_true(wheel_next(&scenario->wheel) == UINT64_MAX);
    return;
  }
  assert_true(earliest + 2 * TICK > scenario->now);
  assert_true(wheel_next(&scenario->wheel) <= earliest + 2 * TICK);
}

static void test_scenarios(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    struct scenario *scenario = calloc(1, sizeof *scenario);
    assert_non_null(scenario);
    scenario->random = seed;
    scenario->now = 1000000 * seed;
    wheel_init(&scenario->wheel, TICK, scenario->now);
    printf("seed %d\n", (int)seed);
    for (int step = 0; step < STEPS; step++) {
      for (uint64_t i = random_next(&scenario->random) % 4; i > 0; i--)
        change_one(scenario);
      bool sleeps = random_next(&scenario->random) % 100 == 0; // it was stopped for rounds
      scenario->now += random_next(&scenario->random) % (sleeps ? TICK * WHEEL_SLOTS * 3 : TICK * 3);
      expire(scenario);
    }
    free(scenario);
  }
}

// However many there are, a look at a moment when none is due costs no look at any: the wheel knows which slots it may
// pass over.
static void test_next(void **state) {
  (void)state;
  struct wheel wheel;
  struct wheel_timer timers[3] = {0};
  wheel_init(&wheel, TICK, 1000);
  assert_true(wheel_next(&wheel) == UINT64_MAX);
  wheel_set(&wheel, &timers[0], 5000);
  wheel_set(&wheel, &timers[1], 3000);
  wheel_set(&wheel, &timers[2], 100); // in the past: as soon as can be
  assert_true(wheel_next(&wheel) <= 1000 + 2 * TICK);
  assert_ptr_equal(wheel_expire(&wheel, 1100), &timers[2]);
  assert_null(wheel_expire(&wheel, 2990));
  assert_true(wheel_next(&wheel) >= 3000 && wheel_next(&wheel) < 3000 + TICK);
  wheel_set(&wheel, &timers[1], 9000); // again, later
  assert_true(wheel_next(&wheel) >= 5000);
  wheel_cancel(&wheel, &timers[0]);
  wheel_cancel(&wheel, &timers[0]);
  assert_ptr_equal(wheel_expire(&wheel, 1000000), &timers[1]);
  assert_null(wheel_expire(&wheel, 2000000));
  assert_true(wheel_next(&wheel) == UINT64_MAX);
}

// A timer that fires sets another one, which is due already: that one fires at the next tick, not a round later.
static void test_due_at_once(void **state) {
  (void)state;
  struct wheel wheel;
  struct wheel_timer timers[2] = {0};
  wheel_init(&wheel, TICK, 1000);
  wheel_set(&wheel, &timers[0], 2000);
  assert_ptr_equal(wheel_expire(&wheel, 2000), &timers[0]);
  wheel_set(&wheel, &timers[1], 2000);
  assert_true(wheel_next(&wheel) <= 2000 + 2 * TICK);
  assert_null(wheel_expire(&wheel, 2000));
  assert_ptr_equal(wheel_expire(&wheel, 2000 + 2 * TICK), &timers[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios), cmocka_unit_test(test_next),
                                     cmocka_unit_test(test_due_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
