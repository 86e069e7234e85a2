// A line on standard error of a terminal that is rewritten while work is in progress.
#include "base/text/status_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text/text.h"

void status_line_open(struct status_line *line, bool quiet) {
  const char *term = getenv("TERM");
  bool dumb = term && strcmp(term, "dumb") == 0;
  *line = (struct status_line){.live = !quiet && !dumb && isatty(STDERR_FILENO)};
}

static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

// The number of bytes of `text` that fit into so many columns. A character of three bytes or more may be wide, like
// Chinese ones, and counts as two.
static int fitting(const char *text, int columns) {
  int size = 0;
  for (int used = 0; text[size]; size++) {
    used += (unsigned char)text[size] >= 0xE0 ? 2 : !text_continues(text[size]);
    if (used > columns)
      break;
  }
  return size;
}

void status_line_show(struct status_line *line, const char *text) {
  // Cut, so that the line never wraps: a wrapped one cannot be taken away.
  fprintf(stderr, "\r\033[K%.*s", fitting(text, terminal_width() - 1), text);
  fflush(stderr);
  line->shown = true;
}

void status_line_hide(struct status_line *line) {
  if (line->shown)
    fputs("\r\033[K", stderr);
  line->shown = false;
}
