// The progress line on standard error.
#include "bench/common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/time/clock.h"

#define EVERY_NS UINT64_C(100000000)
enum { TEXT = 256, ENOUGH_MS = 1000 }; // so long before the time left is told

void bench_progress_begin(struct bench_progress *progress, bool quiet) {
  const char *term = getenv("TERM");
  bool dumb = !term || !*term || strcmp(term, "dumb") == 0;
  *progress = (struct bench_progress){.live = !quiet && isatty(STDERR_FILENO) && !dumb, .begin_ns = clock_ns()};
}

void bench_progress_hide(struct bench_progress *progress) {
  if (progress->shown)
    fputs("\r\033[K", stderr);
  progress->shown = false;
}

static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

static void add_time_left(char *text, size_t cap, double seconds) {
  unsigned long left = (unsigned long)(seconds + 0.5);
  size_t size = strlen(text);
  if (left >= 3600)
    snprintf(text + size, cap - size, ", %lu h %02lu min left", left / 3600, left / 60 % 60);
  else if (left >= 60)
    snprintf(text + size, cap - size, ", %lu min %02lu s left", left / 60, left % 60);
  else
    snprintf(text + size, cap - size, ", %lu s left", left);
}

void bench_progress(struct bench_progress *progress, double done, double total, const char *format, ...) {
  char text[TEXT], line[2 * TEXT];
  uint64_t now = clock_ns();
  if (!progress->live || (progress->shown && now - progress->shown_ns < EVERY_NS))
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printable_line(text);
  double part = total > 0 ? done / total : 0, passed = (double)(now - progress->begin_ns) / 1e9;
  part = part < 0 ? 0 : part > 1 ? 1 : part;
  snprintf(line, sizeof line, "%3.0f %%  %s", part * 100, text);
  if (part > 0 && now - progress->begin_ns > ENOUGH_MS * UINT64_C(1000000))
    add_time_left(line, sizeof line, passed / part * (1 - part));
  // Cut, so that the line never wraps: a wrapped one cannot be taken away.
  fprintf(stderr, "\r\033[K%.*s", terminal_width() - 1, line);
  fflush(stderr);
  progress->shown = true;
  progress->shown_ns = now;
}
