// The progress of a benchmark for a person: one line on standard error that is rewritten if it is a terminal; nothing
// otherwise.
#ifndef BENCH_COMMON_PROGRESS_H
#define BENCH_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/status_line.h"

struct bench_progress {
  struct status_line line;
  uint64_t begin_ns, shown_ns;
};

void bench_progress_begin(struct bench_progress *progress, bool quiet);
// `done` of `total` units of work are done; units are such that each takes about the same time (bytes, iterations).
// Shows that with the time left, and what is under way. Cheap: it writes at most ten times a second.
void bench_progress(struct bench_progress *progress, double done, double total, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Removes the line, before something else is printed and at the end.
void bench_progress_hide(struct bench_progress *progress);

#endif
