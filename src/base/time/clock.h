// Time: CLOCK_MONOTONIC nanoseconds, and deadlines on it.
#ifndef BASE_TIME_CLOCK_H
#define BASE_TIME_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER UINT64_MAX // a deadline that never passes; only for waits that something else limits

// Nanoseconds of CLOCK_MONOTONIC; comparable between the processes of one host.
static inline uint64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_deadline_ms(uint64_t timeout_ms) {
  return clock_ns() + timeout_ms * 1000000u;
}

// The same for a caller's `timeout_ms`: UINT32_MAX (WEFT_WAIT_FOREVER) never passes.
static inline uint64_t clock_wait_deadline(uint32_t timeout_ms) {
  return timeout_ms == UINT32_MAX ? CLOCK_NEVER : clock_deadline_ms(timeout_ms);
}

static inline bool clock_passed(uint64_t deadline_ns) {
  return clock_ns() >= deadline_ns;
}

// Nanoseconds left until the deadline; 0: it has passed.
static inline uint64_t clock_left_ns(uint64_t deadline_ns) {
  uint64_t now = clock_ns();
  return deadline_ns > now ? deadline_ns - now : 0;
}

// Milliseconds left, rounded up so that a wait of this length reaches the deadline; capped at a day (fits an int).
static inline int clock_left_ms(uint64_t deadline_ns) {
  uint64_t ms = (clock_left_ns(deadline_ns) + 999999u) / 1000000u;
  return ms > 86400000u ? 86400000 : (int)ms;
}

static inline struct timespec clock_timespec(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

#endif
