// A clock for measurements that happen a million times per second: the processor's counter if the kernel itself keeps
// time by it, otherwise CLOCK_MONOTONIC. It is for differences up to some hours within one process; for times of day,
// and times that processes compare, use clock.h.
#ifndef BASE_TIME_TICKS_H
#define BASE_TIME_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TICKS_COUNTER "tsc" // the kernel's name of it
#elif defined(__aarch64__)
#define TICKS_COUNTER "arch_sys_counter"
#endif

// Written once, by ticks_open().
struct ticks_rate {
  bool counter;                    // ticks are the processor's; else a tick is a nanosecond
  uint64_t ns_of_tick, tick_of_ns; // times 2^32
};
extern struct ticks_rate ticks_rate;

// Chooses and measures the clock at the first call, in a millisecond. Afterwards any thread may call the functions
// below.
void ticks_open(void);

#ifdef TICKS_COUNTER
// The processor's counter now; the read is not ordered with the instructions around it.
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

// A result that would be too large is UINT64_MAX / 2, which is more than a year.
static inline uint64_t ticks_of_ns(uint64_t ns) {
  unsigned __int128 ticks = (unsigned __int128)ns * ticks_rate.tick_of_ns >> 32;
  return ticks < UINT64_MAX / 2 ? (uint64_t)ticks : UINT64_MAX / 2;
}

#endif
