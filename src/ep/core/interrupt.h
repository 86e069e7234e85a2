// weft_ep_interrupt: a mark that the next wait of the owner takes away, and what wakes the owner to see it.
#ifndef EP_CORE_INTERRUPT_H
#define EP_CORE_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

struct ep_interrupt {
  _Atomic bool asked;
  int fd; // readable while asked, and perhaps for a moment longer
};

int ep_interrupt_open(struct ep_interrupt *interrupt);
void ep_interrupt_close(struct ep_interrupt *interrupt);

// Whether the wait that asks is to end: the mark is taken away. A wait asks before each sleep. [owner]
bool ep_interrupted(weft_ep_t *ep);
// The failure of a call that was interrupted.
int ep_canceled(const char *what);
// Waits for `events` of a socket (poll). Returns what poll did; CANCELED after fail(). Time that has passed: 0. [owner]
int ep_interrupt_poll(weft_ep_t *ep, int socket, short events, uint64_t deadline_ns);

#endif
