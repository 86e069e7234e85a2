// How the owner waits: it spins for a moment, then sleeps on its doorbell.
#ifndef EP_CORE_WAIT_H
#define EP_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/time/clock.h"

// The deadline of a call with `timeout_ms`. WEFT_WAIT_FOREVER: some centuries from now, so that sums with it do not
// overflow.
static inline uint64_t ep_deadline(uint32_t timeout_ms) {
  uint64_t now_ns = clock_ns();
  return timeout_ms == WEFT_WAIT_FOREVER ? now_ns + UINT64_MAX / 4 : now_ns + timeout_ms * (uint64_t)1000000;
}

struct ep_pause {
  uint32_t rounds;
  uint32_t begun;
  bool armed;
  bool steady;        // set before the wait begins: weft_ep_interrupt() does not end it
  bool limited;       // set before the wait begins: its deadline is the time limit of an operation
  bool interrupted;   // weft_ep_interrupt() has ended the wait
  uint64_t since_ns;  // when the wait began; 0: it has not
  uint64_t limit_ns;  // when its time limit began
  uint64_t looked_ns; // when the wait last read the clock
  uint64_t absent_ns; // time in which this rank itself was stopped; the deadline is later by so much
};

// A peer that itself waits for a third rank is not silent: its time limit is extended so many times.
enum { EP_EXTENSIONS = 3 };

// A rank that sleeps in a wait publishes so often, within an operation's time limit, that it waits.
enum { EP_HEARTBEATS = 8 };

// What a rank drives while it waits: its transport to other hosts (remote/net/lock.c), once it is open. [owner]
struct ep_background {
  void (*drive)(weft_ep_t *ep);     // drives the transport, if no other thread does
  void (*hand_over)(weft_ep_t *ep); // the owner does something else from now on
  void (*heartbeat)(weft_ep_t *ep,
                    uint64_t now_ns); // this rank waits: sends heartbeats to peers when they are due
};

// The time between two heartbeats, in ns.
uint64_t ep_heartbeat_ns(const weft_ep_t *ep);

// Called between two checks of the condition that the caller waits for. It spins first; then it announces that it will
// sleep, and lets the caller check once more; then it sleeps. False when `deadline_ns` has passed (the caller has
// checked after that; UINT64_MAX: there is no deadline), or with `pause->interrupted`. [owner]
bool ep_pause(weft_ep_t *ep, struct ep_pause *pause, uint64_t deadline_ns);
// Ends the wait; returns how long it took, in ns. [owner]
uint64_t ep_pause_end(weft_ep_t *ep, struct ep_pause *pause);
// The owner returns to its caller, or sleeps: other threads drive the transport, unless the owner is inside a call that
// continues. [owner]
void ep_hand_over(weft_ep_t *ep);

#endif
