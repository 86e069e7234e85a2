// Rounding of measured numbers.
#include "base/text/digits.h"
#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>

// The number as JSON shows it, but for ".0".
static void assert_shown(double value, const char *expected) {
  char text[64];
  snprintf(text, sizeof text, "%.*g", DIGITS_IN_JSON, digits_rounded(value));
  assert_string_equal(text, expected);
}

static void six_digits_stay(void **state) {
  (void)state;
  assert_shown(20.129999999999999, "20.13");
  assert_shown(0.1 + 0.2, "0.3");
  assert_shown(1.0 / 3, "0.333333");
  assert_shown(-2.0 / 3, "-0.666667");
  assert_shown(123456.789, "123457");
  assert_shown(3.1415926e-6, "3.14159e-06");
  assert_shown(0, "0");
}

static void all_before_the_point_stay(void **state) {
  (void)state;
  assert_shown(14696448, "14696448");
  assert_shown(14696448.7, "14696449");
  assert_shown(-1234567.2, "-1234567");
  assert_shown(999999.96, "1000000");
  assert_shown(1e300, "1e+300");
}

static void rounding_again_changes_nothing(void **state) {
  (void)state;
  const double values[] = {1.0 / 3, 99999.95, 123456.7, 1e6, 1234567.8, 1e15 - 0.5, -0.0, 5e-324};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    assert_true(digits_rounded(digits_rounded(values[i])) == digits_rounded(values[i]));
}

static void what_is_not_finite_stays(void **state) {
  (void)state;
  assert_true(isnan(digits_rounded(NAN)));
  assert_true(isinf(digits_rounded(-INFINITY)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(six_digits_stay),
      cmocka_unit_test(all_before_the_point_stay),
      cmocka_unit_test(rounding_again_changes_nothing),
      cmocka_unit_test(what_is_not_finite_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
