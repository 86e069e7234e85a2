// Spans measured in ticks of the processor against the clock.
#include "cmocka_all.h"

#include "base/time/ticks.h"

// A span of the clock beside the same in ticks. A thread may be put off between two readings, so the bounds are those
// of the readings before and after.
static void test_a_span_is_as_long_as_by_the_clock(void **state) {
  (void)state;
  ticks_open();
  print_message("%s, %llu / 2^32 ns\n", ticks_rate.counter ? "the processor's counter" : "the kernel's clock",
                (unsigned long long)ticks_rate.ns_of_tick);
  uint64_t before = clock_ns(), from = ticks_now(), begun = clock_ns();
  while (clock_ns() - begun < 50000000)
    ;
  uint64_t ended = clock_ns(), to = ticks_now(), after = clock_ns();
  uint64_t span = ticks_to_ns(to - from), least = ended - begun, most = after - before;
  assert_true(span >= least - least / 100);
  assert_true(span <= most + most / 100);
}

static void test_there_and_back(void **state) {
  (void)state;
  ticks_open();
  for (uint64_t ns = 1000; ns < UINT64_C(1) << 50; ns *= 3) {
    uint64_t again = ticks_to_ns(ticks_of_ns(ns));
    assert_true(again <= ns + ns / 1000 + 2 && again + ns / 1000 + 2 >= ns);
  }
  assert_true(ticks_of_ns(UINT64_MAX) <= UINT64_MAX / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_span_is_as_long_as_by_the_clock),
      cmocka_unit_test(test_there_and_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
