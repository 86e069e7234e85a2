// The version: as text, as a number, and that of the headers.
#include <stdio.h>

#include <weft/weft.h>

#include "cmocka_all.h"

static void test_the_number_is_the_text(void **state) {
  (void)state;
  uint32_t number = weft_version_number();
  char text[32];
  snprintf(text, sizeof text, "%u.%u.%u", number / 1000000, number / 1000 % 1000, number % 1000);
  assert_string_equal(weft_version(), text);
  assert_string_equal(weft_version(), PROJECT_VERSION);
}

static void test_library_and_headers_are_of_one_version(void **state) {
  (void)state;
  assert_int_equal(weft_version_number(), WEFT_VERSION_NUMBER);
}

static void test_later_versions_are_larger(void **state) {
  (void)state;
  assert_true(WEFT_VERSION_NUMBER < (WEFT_VERSION_MAJOR + 1) * 1000000);
  assert_true(WEFT_VERSION_MINOR < 1000 && WEFT_VERSION_PATCH < 1000); // more would run into the next part
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_number_is_the_text),
      cmocka_unit_test(test_library_and_headers_are_of_one_version),
      cmocka_unit_test(test_later_versions_are_larger),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
