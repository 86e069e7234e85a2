#include "base/ticks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { MEASURE_NS = 1000000, TRIES = 8 };

struct ticks_rate ticks_rate = {.ns_of_tick = UINT64_C(1) << 32, .tick_of_ns = UINT64_C(1) << 32};

#ifdef __x86_64__

struct pair {
  uint64_t ticks, ns;
};

// Both clocks at the same time: of some tries, the one in which least time went by between them.
static struct pair read_both(void) {
  struct pair best = {0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    uint64_t before = __rdtsc(), ns = clock_ns(), after = __rdtsc();
    if (after - before < least) {
      least = after - before;
      best = (struct pair){before + (after - before) / 2, ns};
    }
  }
  return best;
}

// Whether it runs at one rate in all states of all processors: that it says so itself, and that the kernel, which
// watches it, has not found otherwise.
static bool is_steady(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
    return false;
  char source[32] = "";
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  bool read = file && fgets(source, sizeof source, file);
  if (file)
    fclose(file);
  return read && strcmp(source, "tsc\n") == 0;
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
