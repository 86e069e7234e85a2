// Lines for a pipe that nobody reads wait in memory, in order, and are counted when there are too many.
#include "base/text/output_queue.h"
#include "base/time/clock.h"
#include "cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/err.h>

enum { LINES = 3000, ENOUGH_MS = 60000 };

static char line[101]; // with its end so long that a pipe has no room for all

static int make(void **state) {
  static int ends[2];
  memset(line, 'x', sizeof line - 1);
  *state = ends;
  return pipe(ends);
}

static int end(void **state) {
  int *ends = *state;
  close(ends[0]);
  close(ends[1]);
  return 0;
}

// Reads everything that is in the pipe now, and returns its size.
static size_t drain(int fd, char *last, size_t size) {
  char bytes[4096];
  size_t total = 0;
  ssize_t got;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  while ((got = read(fd, bytes, sizeof bytes)) > 0) {
    total += (size_t)got;
    snprintf(last, size, "%.*s", (int)got, bytes);
  }
  return total;
}

static void lines_wait_and_come_in_order(void **state) {
  int *ends = *state;
  struct output_queue queue = {.fd = ends[1]};
  char text[16], last[4097], all[LINES * 8] = "", want[LINES * 8] = "";
  size_t used = 0, wanted = 0;
  assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 4096);
  for (int i = 0; i < LINES; i++) {
    snprintf(text, sizeof text, "%d", i);
    output_queue_line(&queue, text); // returns though nobody reads
    wanted += (size_t)snprintf(want + wanted, sizeof want - wanted, "%d\n", i);
  }
  assert_true(output_queue_waits(&queue));
  while (used < wanted) {
    size_t got = drain(ends[0], last, sizeof last);
    assert_true(got > 0 && got <= sizeof last - 1 && used + got <= wanted);
    memcpy(all + used, last, got);
    used += got;
    output_queue_push(&queue);
  }
  assert_false(output_queue_waits(&queue));
  assert_memory_equal(all, want, wanted);
  output_queue_free(&queue);
}

static void lines_beyond_the_limit_are_counted(void **state) {
  int *ends = *state;
  struct output_queue queue = {.fd = ends[1]};
  char last[4097] = "";
  size_t kept = 0, size = 0;
  for (int i = 0; i < 2 * OUTPUT_QUEUE_BYTES / (int)sizeof line; i++)
    output_queue_line(&queue, line);
  assert_true(queue.left_out > 0);
  uint64_t left_out = queue.left_out;
  output_queue_add(&queue, "end\n", 4);
  while (output_queue_waits(&queue) || size == 0) {
    size = drain(ends[0], last, sizeof last);
    kept += size;
    output_queue_push(&queue);
  }
  kept += drain(ends[0], last, sizeof last);
  char said[64];
  size_t note = (size_t)snprintf(said, sizeof said, "... %lu lines left out, since nobody read them in time\nend\n",
                                 (unsigned long)left_out);
  assert_int_equal(kept, (2 * OUTPUT_QUEUE_BYTES / sizeof line - left_out) * sizeof line + note);
  assert_string_equal(last + strlen(last) - 4, "end\n");
  output_queue_free(&queue);
}

static void a_wait_ends_by_its_deadline_or_a_stop(void **state) {
  int *ends = *state, stop[2];
  struct output_queue queue = {.fd = ends[1]};
  assert_int_equal(pipe(stop), 0);
  for (int i = 0; i < LINES; i++)
    output_queue_line(&queue, line);
  assert_int_equal(output_queue_finish(&queue, "the lines", -1, clock_deadline_ms(1)), WEFT_ERR_TIMEOUT);
  assert_string_equal(weft_last_error(), "cannot write the lines: nobody reads it");
  assert_int_equal(write(stop[1], "x", 1), 1);
  assert_int_equal(output_queue_finish(&queue, "the lines", stop[0], clock_deadline_ms(ENOUGH_MS)), WEFT_ERR_CANCELED);
  assert_true(output_queue_waits(&queue)); // so the caller may wait again
  output_queue_free(&queue);
  close(stop[0]);
  close(stop[1]);
}

static void an_error_of_a_line_is_kept_for_the_end(void **state) {
  int *ends = *state, full = open("/dev/full", O_WRONLY);
  struct output_queue queue = {.fd = full};
  (void)ends;
  assert_true(full >= 0);
  output_queue_line(&queue, line);
  output_queue_line(&queue, line);
  assert_false(output_queue_waits(&queue));
  assert_int_not_equal(output_queue_finish(&queue, "the lines", -1, CLOCK_NEVER), 0);
  assert_string_equal(weft_last_error(), "cannot write the lines: No space left on device");
  output_queue_free(&queue);
  close(full);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lines_wait_and_come_in_order, make, end),
      cmocka_unit_test_setup_teardown(lines_beyond_the_limit_are_counted, make, end),
      cmocka_unit_test_setup_teardown(a_wait_ends_by_its_deadline_or_a_stop, make, end),
      cmocka_unit_test_setup_teardown(an_error_of_a_line_is_kept_for_the_end, make, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
