// The processor's time-stamp counter, and its rate, measured once.
#include "base/time/ticks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { MEASURE_NS = 1000000, SECOND_NS = 1000000000, TRIES = 8 };

struct ticks_rate ticks_rate = {.ns_of_tick = UINT64_C(1) << 32, .tick_of_ns = UINT64_C(1) << 32};

#ifdef TICKS_COUNTER

struct pair {
  uint64_t ticks, ns;
};

// Both clocks at the same time: of some tries, the one in which least time went by between them.
static struct pair read_both(void) {
  struct pair best = {0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    uint64_t before = ticks_read(), ns = clock_ns(), after = ticks_read();
    if (after - before < least) {
      least = after - before;
      best = (struct pair){before + (after - before) / 2, ns};
    }
  }
  return best;
}

// Whether the counter reports that it runs at one rate in all states of all processors; arm64's counters do by
// definition.
static bool says_steady(void) {
#ifdef __x86_64__
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
  return true;
#endif
}

// And that the kernel, which watches it, has not found otherwise.
static bool is_steady(void) {
  if (!says_steady())
    return false;
  char source[32] = "";
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  bool read = file && fgets(source, sizeof source, file);
  if (file)
    fclose(file);
  return read && strcmp(source, TICKS_COUNTER "\n") == 0;
}

// arm64 has a register with the rate. If it agrees with the measured rate, the register's rate is used, since a slow
// counter (25 MHz) makes the measurement coarse.
static void said_rate(uint64_t *ticks, uint64_t *ns) {
#ifdef __aarch64__
  uint64_t rate;
  __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
  rate &= UINT32_MAX; // the bits above are reserved
  uint64_t measured = (uint64_t)((unsigned __int128)*ticks * SECOND_NS / *ns);
  uint64_t apart = rate > measured ? rate - measured : measured - rate;
  if (apart > rate / 1000)
    return;
  *ticks = rate;
  *ns = SECOND_NS;
#else
  (void)ticks, (void)ns;
#endif
}

static void measure(void) {
  if (!is_steady())
    return;
  struct pair begin = read_both(), end;
  while (clock_ns() - begin.ns < MEASURE_NS)
    ;
  end = read_both();
  uint64_t ticks = end.ticks - begin.ticks, ns = end.ns - begin.ns;
  if (end.ticks <= begin.ticks || ticks / ns > 100)
    return; // no clock
  said_rate(&ticks, &ns);
  ticks_rate.ns_of_tick = (uint64_t)(((unsigned __int128)ns << 32) / ticks);
  ticks_rate.tick_of_ns = (uint64_t)(((unsigned __int128)ticks << 32) / ns);
  ticks_rate.counter = true;
}

#else

static void measure(void) {}

#endif

void ticks_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure);
}
