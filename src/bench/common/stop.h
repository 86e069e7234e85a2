// Signals that ask a benchmark to end. The first is remembered, and what runs ends at its next look, so that what was
// measured so far is written and peers are left in order; a second one ends the process at once.
#ifndef BENCH_COMMON_STOP_H
#define BENCH_COMMON_STOP_H

#include <stdbool.h>

// From now on SIGINT, SIGTERM and SIGHUP are looked at so (SIGHUP not where it is ignored, as by nohup), in processes
// that are forked later, too. `command`, e.g. "weft bench transfer", stands before the message of a second signal.
void bench_stop_watch(const char *command);
// In a process that somebody else ends.
void bench_stop_ignore(void);

// The signal that has come; 0: none. Cheap enough for a loop.
int bench_stopped(void);
// Its name: "SIGINT"; "" while none has come.
const char *bench_stop_name(void);
// CANCELED once one has come, with a sentence that names it.
int bench_stop_check(void);
// For waits that ask a function, such as those of meet: whether one has come. `arg` is not looked at.
bool bench_stop_asked(void *arg);

#endif
