// What the worker that reports has refused, for the other workers: each of them exits as that one does.
#ifndef BENCH_COMMON_VERDICT_H
#define BENCH_COMMON_VERDICT_H

#include "measure/figures.h"
#include "meet/meet.h"

struct bench_verdict {
  uint32_t reporter; // the rank that judged
  bool refused;
  char why[FIGURES_TEXT]; // reason of the first row that was refused
};

// A step of the meeting, which all workers call after the last row. The worker `reporter` gives its figures, whose rows
// it has judged; the others give NULL. All get the verdict. Errors are those of meet_all_gather().
int bench_verdict_share(struct meet *meet, uint32_t reporter, const struct figures *figures, uint32_t timeout_ms,
                        struct bench_verdict *verdict);

// Prints the verdict for the user of a command that does not report.
void bench_verdict_print(const struct bench_verdict *verdict, const char *command);

#endif
