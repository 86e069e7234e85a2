// How the owner waits: it spins for a moment, then sleeps on its doorbell.
#ifndef EP_CORE_WAIT_H
#define EP_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/time/clock.h"

// The deadline of a call with `timeout_ms`. WEFT_WAIT_FOREVER: in some centuries, so that sums with it do not overflow.
static inline uint64_t ep_deadline(uint32_t timeout_ms) {
  uint64_t now_ns = clock_ns();
  return timeout_ms == WEFT_WAIT_FOREVER ? now_ns + UINT64_MAX / 4 : now_ns + timeout_ms * (uint64_t)1000000;
}

struct ep_pause {
  uint32_t rounds;
  uint32_t begun;
  bool armed;
  bool steady;        // set before it begins: weft_ep_interrupt does not end it
  bool interrupted;   // ended by it
  uint64_t since_ns;  // when the waiting began, 0: it has not
  uint64_t looked_ns; // when it last looked at the clock
  uint64_t absent_ns; // time in which this rank itself was stopped; it moves the deadline
};

// A peer that does not come because it waits for a third one is not silent: it gets so many more time limits.
enum { EP_EXTENSIONS = 3 };

// A rank that sleeps in a wait says so often in an operation's time limit that it waits.
enum { EP_HEARTBEATS = 8 };

// What a rank drives while it waits: its way to other hosts (remote/net/lock.c), once that is open. [owner]
struct ep_background {
  void (*drive)(weft_ep_t *ep);     // drives the transport, if no other thread does
  void (*hand_over)(weft_ep_t *ep); // the owner does something else from now on
  void (*heartbeat)(weft_ep_t *ep,
                    uint64_t now_ns); // this rank waits: heartbeats to peers, when they are due
};

// The time between two heartbeats, in ns.
uint64_t ep_heartbeat_ns(const weft_ep_t *ep);

// Between two looks at what is waited for: spins, then says that it will sleep and lets the caller look once more, then
// sleeps. False when `deadline_ns` has passed (the caller has looked after that; UINT64_MAX: there is none), or with
// `pause->interrupted`. [owner]
bool ep_pause(weft_ep_t *ep, struct ep_pause *pause, uint64_t deadline_ns);
// Ends the waiting; returns how long it took, in ns. [owner]
uint64_t ep_pause_end(weft_ep_t *ep, struct ep_pause *pause);
// The owner returns to its caller, or sleeps: others drive, unless it is inside a call that goes on. [owner]
void ep_hand_over(weft_ep_t *ep);

#endif
