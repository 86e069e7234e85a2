// Signals that ask weft p2p to end. The first is remembered, and what runs ends with CANCELED at its next look, so that
// files, uploads and peers are left in order; a second one ends the process.
#ifndef P2P_STOP_H
#define P2P_STOP_H

#include <stdbool.h>

// From now on SIGINT, SIGTERM and SIGHUP are looked at so; SIGHUP not where it is ignored (nohup).
void p2p_stop_watch(void);
// In a process that somebody else ends.
void p2p_stop_ignore(void);

// While it is set already the first signal ends the process, with a message and exit status 128 + its number: around
// calls that nothing can interrupt, when there is nothing to put in order.
void p2p_stop_at_once(bool at_once);

// The signal that has come; 0: none.
int p2p_stopped(void);
// CANCELED once one has come, with a sentence that names it.
int p2p_stop_check(void);

#endif
