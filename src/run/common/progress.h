// What a watching person sees while a run goes on: one line on standard error that is written again and again on a
// terminal, whole lines where it is none.
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
void progress_close(struct progress *progress); // takes the line away

// Shows a state; `milestone`: worth a line of its own where there is no terminal.
void progress_show(struct progress *progress, bool milestone, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Says something once, as a line of its own that stays; the next progress_show() brings the state back below it.
void progress_say(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Takes the line away before something else is printed; the next progress_show() brings it back.
void progress_hide(struct progress *progress);

#endif
