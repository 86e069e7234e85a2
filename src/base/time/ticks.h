// The clock of what is done a million times in a second: the processor's counter where the kernel keeps its own time by
// it, CLOCK_MONOTONIC elsewhere. For differences up to some hours, within one process; times of day and what other
// processes compare come from clock.h.
#ifndef BASE_TIME_TICKS_H
#define BASE_TIME_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TICKS_COUNTER "tsc" // as the kernel calls it
#elif defined(__aarch64__)
#define TICKS_COUNTER "arch_sys_counter"
#endif

// Written once, by ticks_open().
struct ticks_rate {
  bool counter;                    // the processor's; else a tick is a nanosecond
  uint64_t ns_of_tick, tick_of_ns; // times 2^32
};
extern struct ticks_rate ticks_rate;

// Finds out, in a millisecond, the first time; what follows may be called by any thread afterwards.
void ticks_open(void);

#ifdef TICKS_COUNTER
// Of the processor, as it is now; not in order with what stands around it.
static inline uint64_t ticks_read(void) {
#ifdef __x86_64__
  return __rdtsc();
#else
  uint64_t ticks;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}
#endif

static inline uint64_t ticks_now(void) {
#ifdef TICKS_COUNTER
  if (ticks_rate.counter)
    return ticks_read();
#endif
  return clock_ns();
}

static inline uint64_t ticks_to_ns(uint64_t ticks) {
  return (uint64_t)((unsigned __int128)ticks * ticks_rate.ns_of_tick >> 32);
}

// What would be too much is UINT64_MAX / 2, which is more than a year.
static inline uint64_t ticks_of_ns(uint64_t ns) {
  unsigned __int128 ticks = (unsigned __int128)ns * ticks_rate.tick_of_ns >> 32;
  return ticks < UINT64_MAX / 2 ? (uint64_t)ticks : UINT64_MAX / 2;
}

#endif
