// A histogram of durations with a bounded relative error, and of fixed size: no allocation when it records.
#ifndef BASE_TIME_HISTOGRAM_H
#define BASE_TIME_HISTOGRAM_H

#include <stdint.h>

enum {
  HISTOGRAM_SUB_BITS = 6, // 64 linear buckets per power of two: a value is known to 1/64 or better
  HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

// Initialise it with zeros.
struct histogram {
  uint64_t count;
  uint64_t sum;
  uint64_t min; // exact; 0 while empty
  uint64_t max; // exact
  uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

// The mean; 0 while it is empty.
double histogram_mean(const struct histogram *histogram);

// The value that `percent` (0 to 100) of the values do not exceed: the middle of its bucket, kept within min and max.
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
