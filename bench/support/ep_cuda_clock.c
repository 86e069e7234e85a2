// A thread that only reads the clock: see ep_cuda.h.
#include <pthread.h>

#include "../ep_cuda.h"
#include "base/time/clock.h"

enum { STANDS_NS = 5000, STANDS = 1 << 16 };

static struct { uint64_t begin_ns, end_ns; } stood[STANDS];
static _Atomic uint64_t count;

static void *read_clock(void *arg) {
  (void)arg;
  for (uint64_t before_ns = clock_ns(), now_ns;; before_ns = now_ns) {
    now_ns = clock_ns();
    if (now_ns - before_ns < STANDS_NS)
      continue;
    stood[count % STANDS].begin_ns = before_ns;
    stood[count % STANDS].end_ns = now_ns;
    count++;
  }
  return NULL;
}

int ep_cuda_clock_start(void) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, read_clock, NULL);
  return error != 0 ? error : pthread_detach(thread);
}

double ep_cuda_clock_longest(uint64_t begin_ns, uint64_t end_ns) {
  uint64_t longest = 0, last = count;
  for (uint64_t i = last > STANDS / 2 ? last - STANDS / 2 : 0; i < last; i++)
    if (stood[i % STANDS].end_ns >= begin_ns && stood[i % STANDS].begin_ns <= end_ns &&
        stood[i % STANDS].end_ns - stood[i % STANDS].begin_ns > longest)
      longest = stood[i % STANDS].end_ns - stood[i % STANDS].begin_ns;
  return (double)longest / 1e6;
}
