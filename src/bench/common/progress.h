// What a watching person sees while a benchmark runs: one line on standard error of a terminal, which is written again
// and again; nothing where that is none.
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
// Takes the line away, before something else is printed and at the end.
void bench_progress_hide(struct bench_progress *progress);

#endif
