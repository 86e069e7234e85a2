// Steps the wall clock of a process forward and back ten times a second, by seconds, half a minute and an hour. It is
// linked into a test, or preloaded into the tool. All processes see the same steps. The kernel's clock does not change,
// so code that computes a time by this clock and waits for it in the kernel waits too long or too short.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default"))) // visible to shared libraries, too

static long long kernel_ns(clockid_t clock) {
  struct timespec now = {0};
  syscall(SYS_clock_gettime, clock, &now);
  return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static long long wall_ns(void) {
  static const long long steps_s[] = {0, 3600, 3630, 30, -3570, -30, 1, -3600};
  long long step = kernel_ns(CLOCK_MONOTONIC) / 100000000 % (long long)(sizeof steps_s / sizeof *steps_s);
  return kernel_ns(CLOCK_REALTIME) + steps_s[step] * 1000000000;
}

SEEN int clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return (int)syscall(SYS_clock_gettime, clock, now);
  long long ns = wall_ns();
  now->tv_sec = (time_t)(ns / 1000000000);
  now->tv_nsec = (long)(ns % 1000000000);
  return 0;
}

SEEN int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  long long us = wall_ns() / 1000;
  (void)zone;
  *now = (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
  return 0;
}

SEEN time_t time(time_t *now) {
  time_t seconds = (time_t)(wall_ns() / 1000000000);
  if (now)
    *now = seconds;
  return seconds;
}
