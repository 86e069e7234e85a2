// The progress line on standard error.
#include "run/common/progress.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void progress_open(struct progress *progress, bool quiet) {
  const char *term = getenv("TERM");
  *progress = (struct progress){.on = !quiet};
  progress->live = progress->on && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

void progress_hide(struct progress *progress) {
  if (progress->shown)
    fputs("\r\033[K", stderr);
  progress->shown = false;
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

static size_t terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void progress_show(struct progress *progress, bool milestone, const char *format, ...) {
  char text[sizeof progress->last];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printable_line(text);
  bool same = strcmp(text, progress->last) == 0;
  if (!progress->on || (same && (progress->shown || !progress->live)) || (!progress->live && !milestone))
    return;
  memcpy(progress->last, text, sizeof text);
  if (progress->live) // cut, so that the line never wraps: a wrapped one cannot be taken away
    fprintf(stderr, "\r\033[K%.*s", (int)terminal_width() - 1, text);
  else
    fprintf(stderr, "%s\n", text);
  progress->shown = progress->live;
}
