// Times in buckets of powers of two, added to from any thread without a lock.
#ifndef METRICS_HISTOGRAM_H
#define METRICS_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/text/text.h"

enum {
  METRICS_FIRST = 8,    // the first bucket holds up to 2^8 ns, each further one twice that
  METRICS_BUCKETS = 28, // up to 34 s; what takes longer is in none
};

struct metrics_histogram {
  _Atomic uint64_t ended;       // times
  _Atomic uint64_t nanoseconds; // their sum
  _Atomic uint64_t buckets[METRICS_BUCKETS];
};

// Allocates nothing, waits for nothing. [any]
void metrics_histogram_add(struct metrics_histogram *histogram, uint64_t ns);
// Adds what another one has.
void metrics_histogram_merge(struct metrics_histogram *to, const struct metrics_histogram *from);

// The series of a family of type histogram in seconds; `labels` as for metrics_put_count(). Others may add meanwhile.
void metrics_put_histogram(struct text *text, const char *name, const char *labels,
                           const struct metrics_histogram *histogram);

#endif
