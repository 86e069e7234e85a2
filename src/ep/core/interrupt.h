// weft_ep_interrupt(): a flag that the next wait of the owner clears, and a descriptor that wakes the owner.
#ifndef EP_CORE_INTERRUPT_H
#define EP_CORE_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

struct ep_interrupt {
  _Atomic bool asked;
  int fd; // readable while `asked`, and perhaps for a moment longer
  // Of the operation's wait that was interrupted last, for the call that repeats it: its time limit counts over all
  // attempts. 0 after a wait or a call that ended otherwise. [owner]
  uint64_t waited_ns;  // the time that the attempts have waited
  uint32_t extensions; // extensions of the time limit
};

int ep_interrupt_open(struct ep_interrupt *interrupt);
void ep_interrupt_close(struct ep_interrupt *interrupt);

// Whether the calling wait has to end; clears the flag. A wait calls it before each sleep. [owner]
bool ep_interrupted(weft_ep_t *ep);
// Fails with CANCELED, for a call that was interrupted.
int ep_canceled(const char *what);
// A call of an operation has ended with `rc`, which is returned: unless it was interrupted, it will not be repeated,
// and the time limits of later calls count from their own beginning. [owner]
int ep_interrupt_settle(weft_ep_t *ep, int rc);
// A wait came to what it waited for: the time that earlier attempts have waited does not count any more. [owner]
void ep_interrupt_forget(weft_ep_t *ep);
// Waits for `events` of a socket (poll). Returns the result of poll, 0 after the deadline, or CANCELED after fail().
// [owner]
int ep_interrupt_poll(weft_ep_t *ep, int socket, short events, uint64_t deadline_ns);

#endif
