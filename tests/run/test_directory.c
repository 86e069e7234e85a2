// The run directory on a real file system.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/err.h>

#include "run/directory.h"
#include "support/temporary.h"

static char root[96];

static int make_root(void **state) {
  (void)state;
  support_temporary(root, sizeof root, "weft-test");
  return mkdtemp(root) ? 0 : -1;
}

static void remove_file(const char *directory, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  remove(path);
}

static int remove_root(void **state) {
  (void)state;
  char deep[128];
  snprintf(deep, sizeof deep, "%s/a/b", root);
  remove_file(deep, "events.jsonl");
  remove_file(deep, "config.json");
  remove_file(deep, "rank-3.log");
  remove_file(root, "a/b");
  remove_file(root, "a");
  remove_file(root, "file");
  return rmdir(root);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void it_is_made_with_its_parents_and_takes_events_files_and_logs(void **state) {
  (void)state;
  struct run_directory directory;
  char path[128];
  snprintf(path, sizeof path, "%s/a/b", root);
  assert_int_equal(run_directory_open(&directory, path, "0123456789", ""), 0);
  assert_int_equal(run_directory_save(&directory, "config.json", json_pack("{s:i}", "x", 1)), 0);
  run_directory_event(&directory, "exit", json_pack("{s:i}", "rank", 3));
  run_directory_event(&directory, "early", json_pack("{s:i}", "time_ns", 5));

  char *log = run_directory_log(&directory, 3);
  write_file(log, "one\ntwo\nthree\n\n");
  free(log);
  struct text tail = {0};
  run_directory_log_tail(&directory, 3, 2, &tail);
  assert_string_equal(tail.data, "\n  | two\n  | three");
  text_free(&tail);
  run_directory_log_tail(&directory, 4, 2, &tail); // there is none
  assert_int_equal(tail.size, 0);

  char *events = run_directory_file(&directory, "events.jsonl");
  FILE *file = fopen(events, "r");
  json_t *first = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL), *second = json_loadf(file, 0, NULL);
  fclose(file);
  free(events);
  assert_string_equal(json_string_value(json_object_get(first, "kind")), "exit");
  assert_int_equal(json_integer_value(json_object_get(first, "rank")), 3);
  assert_true(json_integer_value(json_object_get(first, "time_ns")) > 0);
  assert_int_equal(json_integer_value(json_object_get(second, "time_ns")), 5);
  json_decref(first);
  json_decref(second);
  run_directory_close(&directory);
}

static void a_path_through_a_file_is_refused_by_name(void **state) {
  (void)state;
  struct run_directory directory;
  char path[128];
  snprintf(path, sizeof path, "%s/file", root);
  write_file(path, "");
  snprintf(path, sizeof path, "%s/file/run", root);
  int err = run_directory_open(&directory, path, "0123456789", "");
  assert_int_equal(weft_err_exit_status(err), 3);
  assert_non_null(strstr(weft_last_error(), path));
}

static void a_directory_has_one_run(void **state) {
  (void)state;
  struct run_directory first, second;
  char path[128];
  snprintf(path, sizeof path, "%s/once", root);
  assert_int_equal(run_directory_open(&first, path, "0123456789", ""), 0);
  assert_int_equal(run_directory_open(&second, path, "9876543210", ""), WEFT_ERR_BUSY);
  assert_non_null(strstr(weft_last_error(), path));
  run_directory_discard(&first);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(run_directory_open(&second, path, "9876543210", ""), 0);
  run_directory_discard(&second);
}

static void what_is_discarded_leaves_what_was_there(void **state) {
  (void)state;
  struct run_directory directory;
  char kept[128], deep[160];
  snprintf(kept, sizeof kept, "%s/kept", root);
  snprintf(deep, sizeof deep, "%s/x/y/", kept);
  assert_int_equal(mkdir(kept, 0700), 0);
  assert_int_equal(run_directory_open(&directory, deep, "0123456789", ""), 0);
  assert_int_equal(run_directory_save(&directory, "host.json", json_object()), 0);
  run_directory_discard(&directory);
  assert_int_equal(rmdir(kept), 0); // there, and empty
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_made_with_its_parents_and_takes_events_files_and_logs),
      cmocka_unit_test(a_path_through_a_file_is_refused_by_name),
      cmocka_unit_test(a_directory_has_one_run),
      cmocka_unit_test(what_is_discarded_leaves_what_was_there),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
