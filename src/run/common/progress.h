// Shows the progress of a run on standard error: on a terminal as one line that is overwritten, otherwise as separate
// lines.
#ifndef RUN_COMMON_PROGRESS_H
#define RUN_COMMON_PROGRESS_H

#include <stdbool.h>

#include "base/text/status_line.h"

struct progress {
  struct status_line line;
  bool on;
  char last[200];
};

void progress_open(struct progress *progress, bool quiet);
void progress_close(struct progress *progress); // erases the line

// Shows a state. Without a terminal only a `milestone` is shown, as a separate line.
void progress_show(struct progress *progress, bool milestone, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Prints a separate line that stays. The next progress_show() shows the state again below it.
void progress_say(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Erases the line before something else is printed. The next progress_show() shows it again.
void progress_hide(struct progress *progress);

#endif
