// The run directory on a real file system.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/err.h>

#include "run/directory/run_directory.h"
#include "support/temporary.h"

static char root[96];

enum { PLACE = 128 }; // bytes of a path below it

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

static void append_log(const struct run_directory *directory, int32_t rank, const char *text) {
  int fd = -1;
  assert_int_equal(run_directory_open_log(directory, rank, &fd), 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
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

  append_log(&directory, 3, "one\ntwo\n");
  append_log(&directory, 3, "three\n\n"); // of a rank that came back
  struct text tail = {0};
  run_directory_log_tail(&directory, 3, 2, &tail);
  assert_string_equal(tail.data, "\n  | two\n  | three");
  text_free(&tail);
  run_directory_log_tail(&directory, 4, 2, &tail); // there is none
  assert_int_equal(tail.size, 0);

  char events[160];
  snprintf(events, sizeof events, "%s/events.jsonl", path);
  FILE *file = fopen(events, "r");
  json_t *first = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL), *second = json_loadf(file, 0, NULL);
  fclose(file);
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

// --- what others, or chance, put there ---

// A directory of one test, which is removed with all that is in it.
static void make_place(char place[PLACE]) {
  static int count;
  snprintf(place, PLACE, "%s/place%d", root, count++);
  assert_int_equal(mkdir(place, 0700), 0);
}

static void remove_place(const char *place) {
  char command[160];
  snprintf(command, sizeof command, "rm -rf '%s'", place);
  assert_int_equal(system(command), 0);
}

static const char *in(const char *place, const char *name) {
  static char paths[4][192];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", place, name);
  return path;
}

static void expect_file(const char *path, const char *text) {
  char got[64] = "";
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t size = fread(got, 1, sizeof got - 1, file);
  fclose(file);
  assert_int_equal(size, strlen(text));
  assert_string_equal(got, text);
}

static void expect_refused(const char *path, int err, const char *word) {
  struct run_directory directory;
  assert_int_equal(run_directory_open(&directory, path, "0123456789", ""), err);
  assert_non_null(strstr(weft_last_error(), word));
  assert_non_null(strstr(weft_last_error(), "--run-dir DIR chooses another")); // whatever is wrong with this one
}

static unsigned mode_of(const char *path) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  return status.st_mode & 07777;
}

static void nobody_else_may_read_what_it_holds(void **state) {
  (void)state;
  char place[PLACE];
  struct run_directory directory;
  make_place(place);
  mode_t mask = umask(0);
  assert_int_equal(run_directory_open(&directory, in(place, "a/b"), "0123456789", ""), 0);
  assert_int_equal(run_directory_save(&directory, "config.json", json_object()), 0);
  append_log(&directory, 0, "");
  umask(mask);
  assert_int_equal(mode_of(in(place, "a")), 0700);
  assert_int_equal(mode_of(in(place, "a/b")), 0700);
  assert_int_equal(mode_of(in(place, "a/b/events.jsonl")), 0600);
  assert_int_equal(mode_of(in(place, "a/b/config.json")), 0600);
  assert_int_equal(mode_of(in(place, "a/b/rank-0.log")), 0600);
  run_directory_close(&directory);
  remove_place(place);
}

static void links_fifos_and_second_names_are_not_written_to(void **state) {
  (void)state;
  char place[PLACE];
  struct run_directory directory;
  int fd = -1;
  make_place(place);
  write_file(in(place, "precious"), "mine");
  assert_int_equal(run_directory_open(&directory, place, "0123456789", ""), 0);
  assert_int_equal(symlink(in(place, "precious"), in(place, "config.json")), 0);
  assert_int_equal(link(in(place, "precious"), in(place, "plan.json")), 0);
  assert_int_equal(mkfifo(in(place, "host.json"), 0600), 0);
  static const char *const saved[] = {"config.json", "plan.json", "host.json"};
  for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
    assert_int_equal(run_directory_save(&directory, saved[i], json_object()), WEFT_ERR_BUSY);
    assert_non_null(strstr(weft_last_error(), saved[i]));
  }
  assert_int_equal(symlink(in(place, "precious"), in(place, "rank-0.log")), 0);
  assert_int_equal(link(in(place, "precious"), in(place, "rank-1.log")), 0);
  assert_int_equal(mkfifo(in(place, "rank-2.log"), 0600), 0);
  assert_int_equal(symlink("/dev/null", in(place, "rank-3.log")), 0);
  assert_int_equal(symlink(in(place, "made"), in(place, "rank-4.log")), 0); // to what is not there yet
  for (int32_t rank = 0; rank < 5; rank++) {
    struct text tail = {0};
    assert_int_equal(weft_err_exit_status(run_directory_open_log(&directory, rank, &fd)), 3);
    assert_int_equal(fd, -1);
    if (rank != 1)
      run_directory_log_tail(&directory, rank, 5, &tail); // nor is the link read, nor the FIFO waited for
    assert_int_equal(tail.size, 0);
  }
  assert_int_equal(access(in(place, "made"), F_OK), -1);
  run_directory_discard(&directory); // takes away its own files only
  expect_file(in(place, "precious"), "mine");
  assert_int_equal(mode_of(in(place, "host.json")), 0600);
  remove_place(place);
}

static void events_go_into_a_new_file_only(void **state) {
  (void)state;
  char place[PLACE];
  make_place(place);
  write_file(in(place, "precious"), "mine");
  assert_int_equal(symlink(in(place, "precious"), in(place, "events.jsonl")), 0);
  expect_refused(place, WEFT_ERR_BUSY, "holds a run already");
  assert_int_equal(unlink(in(place, "events.jsonl")), 0);
  assert_int_equal(mkfifo(in(place, "events.jsonl"), 0600), 0);
  expect_refused(place, WEFT_ERR_BUSY, "holds a run already");
  expect_file(in(place, "precious"), "mine");
  remove_place(place);
}

static void a_directory_that_others_may_write_to_is_refused(void **state) {
  (void)state;
  static const mode_t modes[] = {0777, 0770, 0722, 01777};
  char place[PLACE];
  make_place(place);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    assert_int_equal(chmod(place, modes[i]), 0);
    expect_refused(place, WEFT_ERR_INVALID, "chmod go-w");
  }
  // Below, only the sticky bit keeps others from renaming what is there.
  assert_int_equal(chmod(place, 0777), 0);
  expect_refused(in(place, "run"), WEFT_ERR_INVALID, "sticky");
  assert_int_equal(access(in(place, "run"), F_OK), -1);
  assert_int_equal(chmod(place, 01777), 0);
  struct run_directory directory;
  assert_int_equal(run_directory_open(&directory, in(place, "run"), "0123456789", ""), 0);
  run_directory_discard(&directory);
  remove_place(place);
}

static void a_link_is_refused_as_the_directory_and_followed_before_it(void **state) {
  (void)state;
  char place[PLACE];
  struct run_directory directory;
  make_place(place);
  assert_int_equal(mkdir(in(place, "real"), 0700), 0);
  assert_int_equal(symlink("real", in(place, "link")), 0);
  expect_refused(in(place, "link"), WEFT_ERR_INVALID, "symbolic link");
  expect_refused(in(place, "link//"), WEFT_ERR_INVALID, "symbolic link");
  assert_int_equal(run_directory_open(&directory, in(place, "link/run"), "0123456789", ""), 0);
  assert_int_equal(access(in(place, "real/run/events.jsonl"), F_OK), 0);
  run_directory_discard(&directory);
  assert_int_equal(access(in(place, "real/run"), F_OK), -1);
  if (geteuid() == 0) {
    assert_int_equal(lchown(in(place, "link"), 65534, 65534), 0);
    expect_refused(in(place, "link/run"), WEFT_ERR_INVALID, "of user 65534");
  }
  remove_place(place);
}

static void a_swap_of_the_path_changes_nothing(void **state) {
  (void)state;
  char place[PLACE];
  struct run_directory directory;
  make_place(place);
  assert_int_equal(run_directory_open(&directory, in(place, "run"), "0123456789", ""), 0);
  assert_int_equal(rename(in(place, "run"), in(place, "moved")), 0);
  assert_int_equal(mkdir(in(place, "trap"), 0700), 0);
  assert_int_equal(symlink("trap", in(place, "run")), 0);
  assert_int_equal(run_directory_save(&directory, "config.json", json_object()), 0);
  append_log(&directory, 0, "x");
  run_directory_discard(&directory);
  expect_file(in(place, "moved/rank-0.log"), "x");
  assert_int_equal(rmdir(in(place, "trap")), 0); // empty
  remove_place(place);
}

static void another_users_directory_is_refused(void **state) {
  (void)state;
  char place[PLACE];
  if (geteuid() != 0)
    skip();
  make_place(place);
  assert_int_equal(chown(place, 65534, 65534), 0);
  expect_refused(place, WEFT_ERR_INVALID, "belongs to user 65534");
  assert_int_equal(access(in(place, "events.jsonl"), F_OK), -1);
  remove_place(place);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_made_with_its_parents_and_takes_events_files_and_logs),
      cmocka_unit_test(a_path_through_a_file_is_refused_by_name),
      cmocka_unit_test(a_directory_has_one_run),
      cmocka_unit_test(what_is_discarded_leaves_what_was_there),
      cmocka_unit_test(nobody_else_may_read_what_it_holds),
      cmocka_unit_test(links_fifos_and_second_names_are_not_written_to),
      cmocka_unit_test(events_go_into_a_new_file_only),
      cmocka_unit_test(a_directory_that_others_may_write_to_is_refused),
      cmocka_unit_test(a_link_is_refused_as_the_directory_and_followed_before_it),
      cmocka_unit_test(a_swap_of_the_path_changes_nothing),
      cmocka_unit_test(another_users_directory_is_refused),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
