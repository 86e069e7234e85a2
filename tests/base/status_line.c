// The status line of a terminal, which is overwritten again and again.
#include "base/text/status_line.h"
#include "cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 12 };

// What a terminal of COLUMNS gets when `text` is shown, without what takes the line before it away.
static void show(const char *text, char *got, size_t size) {
  struct winsize window = {.ws_row = 24, .ws_col = COLUMNS};
  struct status_line line;
  int own = dup(STDERR_FILENO), side = posix_openpt(O_RDWR | O_NOCTTY);
  assert_true(side >= 0 && grantpt(side) == 0 && unlockpt(side) == 0);
  int terminal = open(ptsname(side), O_RDWR | O_NOCTTY);
  assert_true(terminal >= 0 && ioctl(terminal, TIOCSWINSZ, &window) == 0);
  dup2(terminal, STDERR_FILENO);
  status_line_open(&line, false);
  status_line_show(&line, text);
  dup2(own, STDERR_FILENO);
  ssize_t count = read(side, got, size - 1);
  got[count > 0 ? count : 0] = '\0';
  close(own);
  close(side);
  close(terminal);
  assert_true(line.live);
  assert_memory_equal(got, "\r\033[K", 4);
  memmove(got, got + 4, strlen(got + 4) + 1);
}

static int be_no_dumb_terminal(void **state) {
  (void)state;
  return setenv("TERM", "xterm", 1);
}

static void it_is_cut_by_columns_between_characters(void **state) {
  (void)state;
  char got[128];
  show("eleven char", got, sizeof got);
  assert_string_equal(got, "eleven char");
  show("twelve chars", got, sizeof got);
  assert_string_equal(got, "twelve char");
  show("\u00e9l\u00e8ves d\u00e9\u00e9\u00e9", got, sizeof got);
  assert_string_equal(got, "\u00e9l\u00e8ves d\u00e9\u00e9\u00e9");
  show("\u00e9l\u00e8ves d\u00e9\u00e9\u00e9\u00e9", got, sizeof got);
  assert_string_equal(got, "\u00e9l\u00e8ves d\u00e9\u00e9\u00e9");
  show("\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d", got, sizeof got); // each as wide as two
  assert_string_equal(got, "\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d");
  show("0123456789\U0001f600", got, sizeof got);
  assert_string_equal(got, "0123456789");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_cut_by_columns_between_characters),
  };
  return cmocka_run_group_tests(tests, be_no_dumb_terminal, NULL);
}
