// The measurements themselves, on a host that reports itself as small: which are made, and that they stop when asked. A
// test cannot know how fast a host is.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "limits/measured/measured.h"
#include "limits/support/small_host.h"

static char missing[4096];

static uint32_t count_of(const struct limits *limits, enum limits_kind kind) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < limits->table.count; i++) {
    const struct limits_entry *entry = &limits->table.list[i];
    if (entry->kind != kind)
      continue;
    count++;
    assert_true(entry->measured && entry->gbps > 0 && *entry->name && *entry->detail);
  }
  return count;
}

static void memory_and_loopback(void **state) {
  (void)state;
  root_put_small_host();
  struct limits *limits = root_open();
  const struct limits_measure measure = {.seconds = 1};
  assert_int_equal(limits_measure_all(limits, &measure, missing, sizeof missing), 0);
  int cpus[64];
  uint32_t processors = limits_list_cpus(&limits->hardware, cpus, 64), counts = 1;
  for (uint32_t count = 1; count < processors; count *= 2)
    counts++;
  assert_in_range(count_of(limits, LIMITS_COPY), 3 * counts, 4 * counts); // the third cache is small for many
  assert_int_equal(count_of(limits, LIMITS_LOOPBACK), 1);
  for (uint32_t i = 0; i < limits->table.count; i++) // a sixteenth of the memory is free; a quarter of it is used
    assert_true(limits->table.list[i].bytes <= 16 << 20);
  assert_non_null(strstr(missing, "the disk: --path names no folder"));
  assert_non_null(strstr(missing, "GPUs: "));
  limits_close(limits);
}

static void progress(void *arg, const char *what, uint32_t percent) {
  uint32_t *last = arg;
  assert_true(percent >= *last && percent <= 100);
  assert_true(*what || percent == 100);
  *last = percent;
}

static void a_disk(void **state) {
  (void)state;
  root_put_small_host();
  struct limits *limits = root_open();
  uint32_t percent = 0;
  const struct limits_measure measure = {.seconds = 1, .path = root, .progress = progress, .arg = &percent};
  assert_int_equal(limits_measure_all(limits, &measure, missing, sizeof missing), 0);
  assert_int_equal(percent, 100);
  if (strstr(missing, "the disk: ")) { // the test's folder is on a file system that cannot
    assert_non_null(strstr(missing, root));
  } else {
    assert_int_equal(count_of(limits, LIMITS_DISK_READ), 1);
    assert_int_equal(count_of(limits, LIMITS_DISK_WRITE), 1);
  }
  limits_close(limits);
}

static void wrong_folders(void **state) {
  (void)state;
  char file[512];
  root_put_small_host();
  struct limits *limits = root_open();
  snprintf(file, sizeof file, "%s/etc/machine-id", root);
  const struct limits_measure nowhere = {.seconds = 1, .path = "/no/where"}, no_folder = {.seconds = 1, .path = file};
  assert_int_equal(limits_measure_all(limits, &nowhere, missing, sizeof missing), WEFT_ERR_INVALID);
  assert_string_equal(weft_last_error(), "--path /no/where: there is no such folder");
  assert_int_equal(limits_measure_all(limits, &no_folder, missing, sizeof missing), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "this is not a folder"));
  limits_close(limits);
}

static bool stopped(void *arg) {
  return ++*(int *)arg > 3;
}

static void it_ends_when_asked(void **state) {
  (void)state;
  root_put_small_host();
  struct limits *limits = root_open();
  int asked = 0;
  const struct limits_measure measure = {.seconds = 1, .stopped = stopped, .arg = &asked};
  assert_int_equal(limits_measure_all(limits, &measure, missing, sizeof missing), WEFT_ERR_CANCELED);
  assert_int_equal(asked, 4);
  limits_close(limits);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(memory_and_loopback, root_make, root_remove),
      cmocka_unit_test_setup_teardown(a_disk, root_make, root_remove),
      cmocka_unit_test_setup_teardown(wrong_folders, root_make, root_remove),
      cmocka_unit_test_setup_teardown(it_ends_when_asked, root_make, root_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
