// The progress line on standard error.
#include "run/common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

void progress_open(struct progress *progress, bool quiet) {
  *progress = (struct progress){.on = !quiet};
  status_line_open(&progress->line, quiet);
}

void progress_hide(struct progress *progress) {
  status_line_hide(&progress->line);
}

void progress_close(struct progress *progress) {
  progress_hide(progress);
  progress->on = false;
}

void progress_say(struct progress *progress, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printable_line(text);
  if (!progress->on)
    return;
  progress_hide(progress);
  fprintf(stderr, "weft elastic: %s\n", text);
}

void progress_show(struct progress *progress, bool milestone, const char *format, ...) {
  char text[sizeof progress->last];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printable_line(text);
  bool same = strcmp(text, progress->last) == 0;
  bool live = progress->line.live;
  if (!progress->on || (same && (progress->line.shown || !live)) || (!live && !milestone))
    return;
  memcpy(progress->last, text, sizeof text);
  if (live)
    status_line_show(&progress->line, text);
  else
    fprintf(stderr, "%s\n", text);
}
