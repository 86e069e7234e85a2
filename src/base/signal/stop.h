// Signals that ask a command of the tool to end. The first is remembered, and what runs ends with CANCELED at its next
// look, so that what was measured so far is written, and files, uploads and peers are left in order; a second one ends
// the process at once, with a message and exit status 128 + its number.
#ifndef BASE_SIGNAL_STOP_H
#define BASE_SIGNAL_STOP_H

#include <stdbool.h>

// From now on SIGINT, SIGTERM and SIGHUP are looked at so (SIGHUP not where it is ignored, as by nohup), in processes
// that are forked later, too. `command`, e.g. "weft bench transfer", stands before the message of a second signal.
void stop_watch(const char *command);
// In a process that somebody else ends.
void stop_ignore(void);

// Whether SIGHUP is ignored, as by nohup. For those who wait for signals themselves: one that is blocked comes to
// sigwait() and a signalfd even then.
bool stop_hangup_is_ignored(void);

// While it is set already the first signal ends the process: around calls that nothing can interrupt, when there is
// nothing to put in order.
void stop_at_once(bool at_once);

// The signal that has come; 0: none. Cheap enough for a loop.
int stop_came(void);
// Its name: "SIGINT"; "" while none has come.
const char *stop_name(void);
// CANCELED once one has come, with a sentence that names it.
int stop_check(void);
// For waits that ask a function, such as those of meet: whether one has come. `arg` is not looked at.
bool stop_asked(void *arg);

#endif
