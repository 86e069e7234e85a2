// Statistics of measured values, and binding of a process to a processor.
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline int bench_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline int bench_order_ns(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static inline void bench_sort(double *values, size_t count) {
  qsort(values, count, sizeof *values, bench_order);
}

static inline void bench_sort_ns(uint64_t *values, size_t count) {
  qsort(values, count, sizeof *values, bench_order_ns);
}

// Sorts the values.
static inline double bench_median(double *values, size_t count) {
  bench_sort(values, count);
  return values[count / 2];
}

// Binds the calling process to this processor. 0, or -1 with errno.
static inline int bench_pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

#endif
