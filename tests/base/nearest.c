// Which of the known names is offered in place of a misspelt one.
#include "base/text/nearest.h"

#include "cmocka_all.h"

// The nearest of the names, which end with NULL; NULL: none is near.
static const char *find(const char *wanted, const char *const *names) {
  struct nearest nearest = {.wanted = wanted};
  for (; *names; names++)
    nearest_offer(&nearest, *names);
  return nearest.best;
}

static size_t distance(const char *wanted, const char *name) {
  struct nearest nearest = {.wanted = wanted};
  nearest_offer(&nearest, name);
  return nearest.best ? nearest.distance : SIZE_MAX;
}

static void each_slip_counts_once(void **state) {
  (void)state;
  assert_int_equal(distance("trnsport", "transport"), 1);
  assert_int_equal(distance("transsport", "transport"), 1);
  assert_int_equal(distance("transpart", "transport"), 1);
  assert_int_equal(distance("trasnport", "transport"), 1); // two neighbours are swapped
  assert_int_equal(distance("rtasnport", "transport"), 2);
}

static void only_near_names_are_offered(void **state) {
  (void)state;
  assert_int_equal(distance("abcdefghi", "abcdef"), 3); // a third of the length
  assert_int_equal(distance("abcdefghi", "abcde"), SIZE_MAX);
  assert_int_equal(distance("abcd", "abxy"), 2); // at least 2
  assert_int_equal(distance("ab", "xy"), SIZE_MAX);
  assert_int_equal(distance("", "a"), SIZE_MAX);
}

static void a_name_that_begins_alike_is_near(void **state) {
  (void)state;
  static const char *const names[] = {"memory", "transport-of-the-group", "tramlines", NULL};
  assert_string_equal(find("tra", names), "transport-of-the-group");
  assert_int_equal(distance("tr", "transport-of-the-group"), SIZE_MAX); // too short to say which
}

static void the_first_of_equals_is_kept_and_a_nearer_one_replaces_it(void **state) {
  (void)state;
  static const char *const names[] = {"sizes", "sites", "size", NULL}, *const equal[] = {"sine", "site", NULL};
  assert_string_equal(find("siz", names), "sizes");
  assert_string_equal(find("sixe", names), "size");
  assert_string_equal(find("sime", equal), "sine");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_slip_counts_once),
      cmocka_unit_test(only_near_names_are_offered),
      cmocka_unit_test(a_name_that_begins_alike_is_near),
      cmocka_unit_test(the_first_of_equals_is_kept_and_a_nearer_one_replaces_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
