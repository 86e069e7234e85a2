// The pauses between the attempts of an exchange with an object store.
#include "cmocka_all.h"

#include "transport/object/object.h"

static void test_pauses_double_up_to_a_limit(void **state) {
  (void)state;
  enum { MOST_MS = 5000 };
  static const uint64_t firsts[] = {0, 1, 50, 60000};
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    const struct object_settings set = {.backoff_ms = firsts[i]};
    uint64_t ms = firsts[i] < MOST_MS ? firsts[i] : MOST_MS;
    for (uint64_t attempt = 0; attempt < 100; attempt++) {
      uint64_t pause_ns = object_backoff_ns(&set, attempt);
      assert_in_range(pause_ns, ms * 500000, ms * 1000000);
      ms = 2 * ms < MOST_MS ? 2 * ms : MOST_MS;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pauses_double_up_to_a_limit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
