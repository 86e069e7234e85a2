// Public structs of older and newer programs: missing fields count as 0, and unknown fields have to be 0.
#include "base/sized.h"

#include <stdint.h>
#include <string.h>

#include <weft/err.h>

#include "cmocka_all.h"

// A struct in its first version, in this library's, and in one to come.
struct first {
  size_t size;
  uint64_t a;
};
struct known {
  size_t size;
  uint64_t a, b;
};
struct later {
  size_t size;
  uint64_t a, b, c;
};

static const struct known *read_known(const void *options, struct known *copy) {
  const struct known *given = options;
  return SIZED_READ(given, copy, a, "known");
}

static void test_an_equal_size_is_read_where_it_is(void **state) {
  (void)state;
  struct known given = {sizeof given, 1, 2}, copy;
  assert_ptr_equal(read_known(&given, &copy), &given);
}

static void test_an_older_program_leaves_new_fields_0(void **state) {
  (void)state;
  struct {
    struct first first;
    uint64_t behind;
  } older = {{sizeof(struct first), 7}, UINT64_MAX};
  struct known copy;
  memset(&copy, 0xff, sizeof copy);
  const struct known *read = read_known(&older, &copy);
  assert_ptr_equal(read, &copy);
  assert_int_equal(read->size, sizeof copy);
  assert_int_equal(read->a, 7);
  assert_int_equal(read->b, 0);
}

static void test_a_newer_program_is_taken_while_it_sets_nothing_new(void **state) {
  (void)state;
  struct later newer = {sizeof newer, 7, 8, 0};
  struct known copy;
  const struct known *read = read_known(&newer, &copy);
  assert_non_null(read);
  assert_int_equal(read->a, 7);
  assert_int_equal(read->b, 8);
  newer.c = (uint64_t)1 << 40;
  assert_null(read_known(&newer, &copy));
  assert_non_null(strstr(weft_last_error(), "byte 29 of 32"));
}

static void test_a_size_that_no_version_has_is_refused(void **state) {
  (void)state;
  struct known copy, given = {.size = sizeof(struct first) - 1};
  assert_null(read_known(&given, &copy));
  assert_non_null(strstr(weft_last_error(), "*_INIT"));
  assert_int_equal(sized_refusal(&given, sizeof copy), WEFT_ERR_INVALID);
  given.size = SIZE_MAX; // never set: it must not be read so far
  assert_null(read_known(&given, &copy));
  assert_int_equal(sized_refusal(&given, sizeof copy), WEFT_ERR_INVALID); // it comes from no newer program
  assert_int_equal(sized_refusal(NULL, sizeof copy), WEFT_ERR_INVALID);
  assert_null(read_known(NULL, &copy));
  assert_int_equal(sized_check_output(&given, sizeof(struct first), "given"), WEFT_ERR_INVALID);
  given.size = sizeof(struct later);
  assert_int_equal(sized_refusal(&given, sizeof copy), WEFT_ERR_VERSION);
  assert_int_equal(sized_check_output(&given, sizeof(struct first), "given"), 0);
}

static void test_outputs_go_as_far_as_the_program_knows(void **state) {
  (void)state;
  struct known filled = {sizeof filled, 3, 4};
  struct later newer = {sizeof newer, 0, 0, 9};
  sized_write(&newer, &filled, sizeof filled);
  assert_int_equal(newer.size, sizeof newer);
  assert_int_equal(newer.a, 3);
  assert_int_equal(newer.b, 4);
  assert_int_equal(newer.c, 9);
  struct {
    struct first first;
    uint64_t behind;
  } older = {{sizeof(struct first), 0}, 5};
  sized_write(&older, &filled, sizeof filled);
  assert_int_equal(older.first.a, 3);
  assert_int_equal(older.behind, 5);
}

static void test_initial_values_have_the_programs_size(void **state) {
  (void)state;
  static const struct known initial = {sizeof initial, 1, 2};
  struct later newer;
  memset(&newer, 0xff, sizeof newer);
  sized_init(&newer, sizeof newer, &initial, sizeof initial);
  assert_int_equal(newer.size, sizeof newer);
  assert_int_equal(newer.b, 2);
  assert_int_equal(newer.c, 0);
  struct {
    struct first first;
    uint64_t behind;
  } older = {{0, 0}, 5};
  sized_init(&older, sizeof(struct first), &initial, sizeof initial);
  assert_int_equal(older.first.size, sizeof(struct first));
  assert_int_equal(older.first.a, 1);
  assert_int_equal(older.behind, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_equal_size_is_read_where_it_is),
      cmocka_unit_test(test_an_older_program_leaves_new_fields_0),
      cmocka_unit_test(test_a_newer_program_is_taken_while_it_sets_nothing_new),
      cmocka_unit_test(test_a_size_that_no_version_has_is_refused),
      cmocka_unit_test(test_outputs_go_as_far_as_the_program_knows),
      cmocka_unit_test(test_initial_values_have_the_programs_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
