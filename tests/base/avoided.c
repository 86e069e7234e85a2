// Which features Weft avoids in which versions of the libraries. The documentation has each row of the table.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/avoided.h"

static void test_a_range_has_its_first_version_and_not_its_end(void **state) {
  (void)state;
  assert_false(avoided_in(AVOIDED_UCX_POSIX, 1, 13));
  assert_false(avoided_in(AVOIDED_UCX_POSIX, 1, 15));
  assert_true(avoided_in(AVOIDED_UCX_POSIX, 1, 16));
  assert_true(avoided_in(AVOIDED_UCX_POSIX, 1, 18));
  assert_false(avoided_in(AVOIDED_UCX_POSIX, 1, 19));
  assert_false(avoided_in(AVOIDED_UCX_POSIX, 2, 17));
  assert_true(avoided_in(AVOIDED_OFI_CLOSE, 1, 17));
  assert_false(avoided_in(AVOIDED_OFI_CLOSE, 1, 18));
  assert_true(avoided_in(AVOIDED_OFI_SHM, 1, 17));
  assert_true(avoided_in(AVOIDED_OFI_SHM, 2, 1));
}

static void test_the_rows_of_a_version_come_one_after_the_other(void **state) {
  (void)state;
  const struct avoided *row = avoided_next("UCX", "1.18.1", NULL);
  assert_ptr_equal(row, avoided_row(AVOIDED_UCX_POSIX));
  assert_null(avoided_next("UCX", "1.18.1", row));
  assert_null(avoided_next("UCX", "1.22.0", NULL));
  assert_null(avoided_next("UCX", "of unknown version", NULL));
  assert_null(avoided_next("UCX", "", NULL));
  assert_null(avoided_next("jansson", "1.18", NULL));
  row = avoided_next("libfabric", "1.17", NULL);
  assert_ptr_equal(row, avoided_row(AVOIDED_OFI_SHM));
  row = avoided_next("libfabric", "1.17", row);
  assert_ptr_equal(row, avoided_row(AVOIDED_OFI_CLOSE));
  assert_null(avoided_next("libfabric", "1.17", row));
  assert_null(avoided_next("libfabric", "2.1", avoided_row(AVOIDED_OFI_SHM)));
}

static char *documentation(void) {
  FILE *file = fopen(VERSIONS_MD, "r");
  assert_non_null(file);
  enum { MOST = 1 << 16 };
  char *text = calloc(1, MOST);
  assert_non_null(text);
  size_t size = fread(text, 1, MOST - 1, file);
  assert_in_range(size, 1, MOST - 2);
  fclose(file);
  return text;
}

// As "| UCX | 1.16 to 1.18 | its POSIX shared memory |": the versions from the first to the last one tried are words of
// the documentation's.
static void test_the_documentation_has_every_row(void **state) {
  (void)state;
  char *text = documentation();
  for (int id = AVOIDED_UCX_POSIX; id <= AVOIDED_OFI_CLOSE; id++) {
    const struct avoided *row = avoided_row((enum avoided_id)id);
    char line[512], start[64];
    snprintf(start, sizeof start, "\n| %s | ", row->library);
    snprintf(line, sizeof line, " | %s | ", row->what);
    const char *found = strstr(text, line);
    if (!found)
      fail_msg("docs/versions.md has no row for %s: %s", row->library, row->what);
    while (found > text && *found != '\n')
      found--;
    assert_int_equal(strncmp(found, start, strlen(start)), 0);
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_range_has_its_first_version_and_not_its_end),
      cmocka_unit_test(test_the_rows_of_a_version_come_one_after_the_other),
      cmocka_unit_test(test_the_documentation_has_every_row),
  };
  return cmocka_run_group_tests_name("what is avoided", tests, NULL, NULL);
}
