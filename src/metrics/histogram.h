// A histogram of times with buckets of powers of two. Any thread may add to it without a lock.
#ifndef METRICS_HISTOGRAM_H
#define METRICS_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/text/text.h"

enum {
  METRICS_FIRST = 8,    // the first bucket holds up to 2^8 ns, each further bucket twice as much
  METRICS_BUCKETS = 28, // up to 34 s; longer times are in no bucket
};

struct metrics_histogram {
  _Atomic uint64_t ended;       // number of times
  _Atomic uint64_t nanoseconds; // their sum
  _Atomic uint64_t buckets[METRICS_BUCKETS];
};

// Allocates nothing, waits for nothing. [any]
void metrics_histogram_add(struct metrics_histogram *histogram, uint64_t ns);
// Adds the counts of another histogram.
void metrics_histogram_merge(struct metrics_histogram *to, const struct metrics_histogram *from);

// Writes the series of a family of type histogram in seconds; `labels` as for metrics_put_count(). Other threads may
// add to the histogram during the call.
void metrics_put_histogram(struct text *text, const char *name, const char *labels,
                           const struct metrics_histogram *histogram);

#endif
