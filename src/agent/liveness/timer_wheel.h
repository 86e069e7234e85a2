// Timers whose cost does not depend on their number: a hashed wheel (Varghese, Lauck 1987). Times are rounded up to the
// wheel's ticks. One thread at a time.
#ifndef AGENT_LIVENESS_TIMER_WHEEL_H
#define AGENT_LIVENESS_TIMER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

enum { WHEEL_SLOTS = 512 };

// Initialise it with zeros. Its owner must not move it while it is set.
struct wheel_timer {
  uint64_t tick; // when it is due
  struct wheel_timer *next, **link;
};

struct wheel {
  uint64_t tick_ns;
  uint64_t at;                     // the next tick to look at
  struct wheel_timer *cursor;      // the next timer to look at in the current slot
  bool inside;                     // `cursor` is within the current slot
  uint64_t used[WHEEL_SLOTS / 64]; // a bit for each slot that holds timers
  struct wheel_timer *slots[WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, uint64_t tick_ns, uint64_t now_ns);

// Sets the timer, also if it is set already.
void wheel_set(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ns);
// Cancels the timer. Does nothing if it is not set.
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);

static inline bool wheel_is_set(const struct wheel_timer *timer) {
  return timer->link;
}

// Takes out a timer that is due; NULL: none is due. Other timers may be set and cancelled between two calls.
struct wheel_timer *wheel_expire(struct wheel *wheel, uint64_t now_ns);

// The earliest time at which wheel_expire() has something to do; UINT64_MAX: no timer is set.
uint64_t wheel_next(const struct wheel *wheel);

#endif
