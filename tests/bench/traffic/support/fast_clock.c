// Preloaded into the tool: a monotonic clock that is too fast, by the fraction in WEFT_FAST_CLOCK.
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int clock_fn(clockid_t, struct timespec *);

static clock_fn *real;
static double too_fast;
static struct timespec begun;

__attribute__((constructor)) static void begin(void) {
  const char *part = getenv("WEFT_FAST_CLOCK");
  too_fast = part ? atof(part) : 0;
  *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
  real(CLOCK_MONOTONIC, &begun);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real) // of another constructor
    begin();
  int rc = real(clock, now);
  if (rc != 0 || clock != CLOCK_MONOTONIC)
    return rc;
  double passed = (double)(now->tv_sec - begun.tv_sec) * 1e9 + (double)(now->tv_nsec - begun.tv_nsec);
  long long ns = now->tv_nsec + (long long)(passed * too_fast);
  now->tv_sec += ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}
