// Log lines, read back through a pipe in place of standard error.
#include "base/log.h"
#include "cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPTURE = 1 << 15, THREADS = 4, LINES = 50 };

// Runs `write_lines` with standard error in a pipe; what it wrote, up to CAPTURE - 1 bytes, goes into `out`. All of it
// must fit into the pipe (64 KiB).
static void capture(void (*write_lines)(void), char out[CAPTURE]) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  int kept = dup(STDERR_FILENO);
  assert_true(kept >= 0);
  assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  close(ends[1]);
  write_lines();
  assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
  close(kept);
  size_t used = 0;
  ssize_t got;
  while (used < CAPTURE - 1 && (got = read(ends[0], out + used, CAPTURE - 1 - used)) > 0)
    used += (size_t)got;
  out[used] = '\0';
  close(ends[0]);
}

static void write_every_level(void) {
  log_error("number %d", 1);
  log_warn("number %d", 2);
  log_info("number %d", 3);
  log_debug("number %d", 4);
}

static void the_environment_sets_the_level(void **state) {
  (void)state;
  char out[CAPTURE];
  assert_int_equal(setenv("WEFT_LOG", "info", 1), 0); // read by the program's first line
  capture(write_every_level, out);
  assert_string_equal(out, "weft[error] number 1\nweft[warn] number 2\nweft[info] number 3\n");
}

static void only_lines_of_the_level_or_worse_are_written(void **state) {
  (void)state;
  static const char *const wanted[] = {"weft[error] number 1\n", "weft[warn] number 2\n", "weft[info] number 3\n",
                                       "weft[debug] number 4\n"};
  char expected[256] = "", out[CAPTURE];
  for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
    strcat(expected, wanted[level]);
    log_set_level((enum log_level)level);
    capture(write_every_level, out);
    assert_string_equal(out, expected);
  }
}

static void write_a_long_line(void) {
  char text[4001];
  memset(text, 'z', 4000);
  text[4000] = '\0';
  log_error("%s", text);
  log_error("next");
}

static void a_line_too_long_is_cut_and_still_ends(void **state) {
  (void)state;
  char out[CAPTURE];
  capture(write_a_long_line, out);
  char *end = strchr(out, '\n');
  assert_non_null(end);
  assert_uint_in_range(end - out, 1000, 4000);
  assert_string_equal(end, "\nweft[error] next\n");
}

static void *write_many(void *arg) {
  for (int i = 0; i < LINES; i++)
    log_error("thread %s line %02d end", (const char *)arg, i);
  return NULL;
}

static void write_from_threads(void) {
  static char names[THREADS][2] = {"0", "1", "2", "3"};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void lines_of_several_threads_stay_whole(void **state) {
  (void)state;
  char out[CAPTURE];
  capture(write_from_threads, out);
  int next[THREADS] = {0};
  char *rest = NULL;
  for (char *line = strtok_r(out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    int thread = -1, number = -1, used = 0;
    assert_int_equal(sscanf(line, "weft[error] thread %d line %d end%n", &thread, &number, &used), 2);
    assert_int_equal(used, strlen(line));
    assert_uint_in_range(thread, 0, THREADS - 1);
    assert_int_equal(number, next[thread]++);
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(next[i], LINES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment_sets_the_level),
      cmocka_unit_test(only_lines_of_the_level_or_worse_are_written),
      cmocka_unit_test(a_line_too_long_is_cut_and_still_ends),
      cmocka_unit_test(lines_of_several_threads_stay_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
