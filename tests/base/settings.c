// Lists of settings: names, numbers, and what is wrong with them.
#include "cmocka_all.h"

#include <string.h>

#include "base/text/settings.h"
#include <weft/err.h>

static const char *const others[] = {"engine", "secret", NULL};

static int read_two(const char *const *settings, uint64_t *depth, uint64_t *wait) {
  const struct settings_number numbers[] = {{"depth", 1, 4096, depth}, {"depth_wait", 0, 9, wait}, {.name = NULL}};
  return settings_read(settings, "it", numbers, others);
}

static void test_values_are_found_by_their_whole_name(void **state) {
  (void)state;
  static const char *const list[] = {"depth=1", "dept=2", "engine=", "depth=3", "depths=4", "secret=a=b", NULL};
  assert_string_equal(settings_value(list, "depth"), "3"); // the last
  assert_string_equal(settings_value(list, "engine"), "");
  assert_string_equal(settings_value(list, "secret"), "a=b");
  assert_null(settings_value(list, "dep"));
  assert_null(settings_value(NULL, "depth"));
}

static void test_numbers_are_read_where_they_are_given(void **state) {
  (void)state;
  uint64_t depth = 64, wait = 5;
  static const char *const list[] = {"depth=7", "engine=x", "depth=4096", NULL};
  assert_int_equal(read_two(list, &depth, &wait), 0);
  assert_int_equal(depth, 4096);
  assert_int_equal(wait, 5);
  assert_int_equal(read_two(NULL, &depth, &wait), 0);
  assert_int_equal(depth, 4096);
}

static void test_what_is_wrong_is_reported_without_secrets(void **state) {
  (void)state;
  static const char *const wrong[] = {"depth=0",  "depth=4097", "depth=",        "depth=-1",
                                      "depth=1x", "depth= 1",   "depth_wait=10", "depth=99999999999999999999"};
  uint64_t depth = 64, wait = 5;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const char *const list[] = {wrong[i], NULL};
    assert_int_equal(read_two(list, &depth, &wait), WEFT_ERR_INVALID);
    assert_non_null(strstr(weft_last_error(), ": want a number from "));
    assert_memory_equal(weft_last_error(), wrong[i], strlen(wrong[i]));
  }
  assert_int_equal(depth, 64);
  assert_int_equal(wait, 5);
  static const char *const unknown[] = {"secrets=hush", NULL}, *const bare[] = {"depth", NULL};
  assert_int_equal(read_two(unknown, &depth, &wait), WEFT_ERR_INVALID);
  assert_string_equal(weft_last_error(), "it has no setting \"secrets\"; it has engine, secret, depth, depth_wait");
  assert_int_equal(read_two(bare, &depth, &wait), WEFT_ERR_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_found_by_their_whole_name),
      cmocka_unit_test(test_numbers_are_read_where_they_are_given),
      cmocka_unit_test(test_what_is_wrong_is_reported_without_secrets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
