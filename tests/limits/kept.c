// The stored file of bounds: it is used only on its own host and hardware, and otherwise refused with the reason.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "limits/measured/measured.h"
#include "limits/support/small_host.h"

static const struct limits_entry measured = {.kind = LIMITS_COPY,
                                             .name = "host copy by 1",
                                             .processors = 1,
                                             .bytes = 1 << 20,
                                             .gbps = 12.5,
                                             .measured = true,
                                             .detail = "by the test"};

static int make_small_host(void **state) {
  int rc = root_make(state);
  if (rc == 0)
    root_put_small_host();
  return rc;
}

// Keeps one measurement; the path of the file.
static const char *keep(void) {
  static char path[KEPT_PATH];
  struct limits *limits = root_open();
  assert_non_null(strstr(limits_origin(limits), "'weft bench limits' measures this host"));
  assert_int_equal(limits_table_add(&limits->table, &measured), 0);
  assert_int_equal(limits_keep(limits), 0);
  snprintf(path, sizeof path, "%s", limits->path);
  limits_close(limits);
  return path;
}

// Replaces the first `from` of the kept file, or all of it.
static void change(const char *path, const char *from, const char *to) {
  char text[8192] = "", changed[8192];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  const char *at = from ? strstr(text, from) : text;
  assert_non_null(at);
  snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, from ? at + strlen(from) : "");
  file = fopen(path, "w");
  assert_non_null(file);
  fputs(changed, file);
  fclose(file);
}

// The file is not used, and the origin says `why`.
static void is_not_used(const char *why) {
  struct limits *limits = root_open();
  assert_false(limits->kept);
  if (!strstr(limits_origin(limits), why))
    fail_msg("%s: does not say: %s", limits_origin(limits), why);
  assert_non_null(strstr(limits_origin(limits), "measures again"));
  assert_null(limits_table_copy(&limits->table, 1, 1 << 20));
  limits_close(limits);
}

static void what_was_measured_is_there_the_next_time(void **state) {
  (void)state;
  struct stat status;
  const char *path = keep();
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 0777, 0600);
  struct limits *limits = root_open();
  assert_true(limits->kept);
  assert_non_null(strstr(limits_origin(limits), "measured at 20"));
  const struct limits_entry *copy = limits_table_copy(&limits->table, 1, 1 << 20);
  assert_non_null(copy);
  assert_memory_equal(copy, &measured, sizeof measured);
  limits_close(limits);
}

static void what_the_hardware_describes_is_not_kept(void **state) {
  (void)state;
  root_put("/sys/devices/system/node/node0/access0/initiators/read_bandwidth", "100000\n");
  root_put("/sys/devices/system/node/node0/access0/initiators/write_bandwidth", "50000\n");
  keep();
  root_put("/sys/devices/system/node/node0/access0/initiators/write_bandwidth", "0\n");
  struct limits *limits = root_open();
  assert_int_equal(limits->table.count, 1);
  limits_close(limits);
}

static void another_host(void **state) {
  (void)state;
  char copy[KEPT_PATH + 32];
  snprintf(copy, sizeof copy, "%s", keep());
  root_put("/etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
  struct limits *limits = root_open();
  assert_false(limits->kept); // it has a file of its own
  assert_int_equal(rename(copy, limits->path), 0);
  limits_close(limits);
  is_not_used("they are of another host");
}

static void other_hardware(void **state) {
  (void)state;
  keep();
  root_put("/proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:      65536 kB\n");
  is_not_used("they are of other hardware: memory_gib was 4, and is now 8");
  root_put_small_host();
  root_put("/sys/devices/system/cpu/cpu0/cache/index3/size", "2048K\n");
  is_not_used("caches was \"L1 32 KiB, L2 256 KiB, L3 1024 KiB\", and is now \"L1 32 KiB, L2 256 KiB, L3 2048 KiB\"");
}

static void more_processors_than_were_measured(void **state) {
  (void)state;
  const char *path = keep();
  struct limits *limits = root_open();
  char now[32];
  snprintf(now, sizeof now, "\"processors\": %u", limits->hardware.processors);
  limits_close(limits);
  change(path, now, "\"processors\": 1000");
  limits = root_open();
  assert_true(limits->kept);
  limits_close(limits);
  change(path, "\"processors\": 1000", "\"processors\": 0");
  is_not_used("processors was 0");
}

static void malformed_files(void **state) {
  (void)state;
  const char *path = keep();
  change(path, "\"weft_limits\": 1", "\"weft_limits\": 2");
  is_not_used("they are of format 2, but this weft reads format 1");
  change(path, "\"weft_limits\": 2", "\"weft_other\": 2");
  is_not_used("there is no number \"weft_limits\"");
  change(path, "\"weft_other\": 2", "\"weft_limits\": 1");
  change(path, "\"gbps\": 12.5", "\"gbps\": -3");
  is_not_used("gbps: -3 is not a bandwidth");
  change(path, "\"gbps\": -3", "\"gbps\": \"fast\"");
  is_not_used("entry 0");
  change(path, "\"fast\"", "12.5");
  change(path, "\"copy\"", "\"teleport\"");
  is_not_used("kind");
  change(path, NULL, "{");
  is_not_used("not JSON");
  change(path, NULL, "[]");
  is_not_used("these are not kept bounds");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  is_not_used("not a regular file");
}

static void folders(void **state) {
  (void)state;
  char path[KEPT_PATH], wanted[ROOT_PATH + 64];
  struct limits *limits = root_open();
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", root, 1);
  assert_int_equal(limits_kept_path(&limits->hardware, true, path), 0);
  snprintf(wanted, sizeof wanted, "%s/.cache/weft/limits-%.16s.json", root, limits->hardware.machine);
  assert_string_equal(path, wanted);
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/proc", 1); // where nobody can make a folder, root neither
  assert_int_equal(limits_keep(limits), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "/proc/.cache"));
  unsetenv("HOME");
  assert_int_equal(limits_keep(limits), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "HOME"));
  limits_close(limits);
  limits = root_open(); // which does not need one
  assert_non_null(strstr(limits_origin(limits), "HOME"));
  limits_close(limits);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_was_measured_is_there_the_next_time, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(what_the_hardware_describes_is_not_kept, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(another_host, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(other_hardware, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(more_processors_than_were_measured, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(malformed_files, make_small_host, root_remove),
      cmocka_unit_test_setup_teardown(folders, make_small_host, root_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
