// Signals that request a command of the tool to end. The first signal is recorded, and the running work ends with
// CANCELED at its next check, so that the results so far are written, and files, uploads and peers are left in good
// order. If nobody reads standard output or standard error, what is written there from then on is dropped: otherwise a
// write would wait for a reader that may never come. A second signal ends the process at once, with a message and exit
// status 128 + its number.
#ifndef BASE_SIGNAL_STOP_H
#define BASE_SIGNAL_STOP_H

#include <stdbool.h>

// From now on SIGINT, SIGTERM and SIGHUP are handled so (not SIGHUP if it is ignored, as by nohup), also in processes
// that are forked later. `command`, e.g. "weft bench transfer", precedes the message of a second signal.
void stop_watch(const char *command);
// Ignores these signals, in a process that another process ends.
void stop_ignore(void);

// Whether SIGHUP is ignored, as by nohup. For code that waits for signals itself: sigwait() and a signalfd get a
// blocked signal even if it is ignored.
bool stop_hangup_is_ignored(void);

// While it is set, even the first signal ends the process: for calls that nothing can interrupt, when nothing has to be
// cleaned up.
void stop_at_once(bool at_once);

// The signal that was received; 0: none. Cheap enough for a loop.
int stop_came(void);
// Its name, such as "SIGINT"; "": none was received.
const char *stop_name(void);
// CANCELED if a signal was received, with a text that names it.
int stop_check(void);
// Whether a signal was received, for waits that call a function, such as those of meet. `arg` is ignored.
bool stop_asked(void *arg);

#endif
