// A hashed timer wheel.
#include "agent/liveness/timer_wheel.h"

#include <stddef.h>

void wheel_init(struct wheel *wheel, uint64_t tick_ns, uint64_t now_ns) {
  *wheel = (struct wheel){.tick_ns = tick_ns, .at = now_ns / tick_ns + 1};
}

void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer) {
  if (!timer->link)
    return;
  if (wheel->cursor == timer)
    wheel->cursor = timer->next;
  *timer->link = timer->next;
  if (timer->next)
    timer->next->link = timer->link;
  timer->link = NULL;
  size_t slot = timer->tick % WHEEL_SLOTS;
  if (!wheel->slots[slot])
    wheel->used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

void wheel_set(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ns) {
  wheel_cancel(wheel, timer);
  uint64_t tick = due_ns / wheel->tick_ns + (due_ns % wheel->tick_ns != 0);
  uint64_t earliest = wheel->at + (wheel->inside ? 1 : 0); // the slot at hand may have been passed over already
  timer->tick = tick > earliest ? tick : earliest;
  size_t slot = timer->tick % WHEEL_SLOTS;
  timer->link = &wheel->slots[slot];
  timer->next = wheel->slots[slot];
  if (timer->next)
    timer->next->link = &timer->next;
  wheel->slots[slot] = timer;
  wheel->used[slot / 64] |= UINT64_C(1) << slot % 64;
}

// The first tick from `at` on whose slot has timers, which may all be of a later round.
static uint64_t next_used(const struct wheel *wheel) {
  for (uint64_t i = 0; i < WHEEL_SLOTS;) {
    size_t slot = (wheel->at + i) % WHEEL_SLOTS;
    uint64_t bits = wheel->used[slot / 64] >> slot % 64;
    if (bits)
      return wheel->at + i + (uint64_t)__builtin_ctzll(bits);
    i += 64 - slot % 64;
  }
  return UINT64_MAX;
}

struct wheel_timer *wheel_expire(struct wheel *wheel, uint64_t now_ns) {
  uint64_t until = now_ns / wheel->tick_ns;
  while (wheel->inside || wheel->at <= until) {
    if (!wheel->inside) {
      if (until - wheel->at >= WHEEL_SLOTS) // a round or more went by: once through all slots suffices
        wheel->at = until - WHEEL_SLOTS + 1;
      uint64_t next = next_used(wheel);
      wheel->at = next <= until ? next : until + 1;
      if (next > until)
        return NULL;
      wheel->inside = true;
      wheel->cursor = wheel->slots[wheel->at % WHEEL_SLOTS];
    }
    while (wheel->cursor) {
      struct wheel_timer *timer = wheel->cursor;
      wheel->cursor = timer->next;
      if (timer->tick <= wheel->at) {
        wheel_cancel(wheel, timer);
        return timer;
      }
    }
    wheel->inside = false;
    wheel->at++;
  }
  return NULL;
}

uint64_t wheel_next(const struct wheel *wheel) {
  if (wheel->inside)
    return wheel->at * wheel->tick_ns;
  uint64_t tick = next_used(wheel);
  return tick == UINT64_MAX ? UINT64_MAX : tick * wheel->tick_ns;
}
