// The progress line on standard error.
#include "bench/common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/time/clock.h"

#define EVERY_NS UINT64_C(100000000)
enum { TEXT = 256, ENOUGH_MS = 1000 }; // ENOUGH_MS: the time left is shown only after so long

void bench_progress_begin(struct bench_progress *progress, bool quiet) {
  *progress = (struct bench_progress){.begin_ns = clock_ns()};
  status_line_open(&progress->line, quiet);
}

void bench_progress_hide(struct bench_progress *progress) {
  status_line_hide(&progress->line);
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
  if (!progress->line.live || (progress->line.shown && now - progress->shown_ns < EVERY_NS))
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
  status_line_show(&progress->line, line);
  progress->shown_ns = now;
}
