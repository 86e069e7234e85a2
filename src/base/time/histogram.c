// Buckets of a histogram: which one a duration falls into, and quantiles from their counts.
#include "base/time/histogram.h"

#include <math.h>

enum { SUB = 1 << HISTOGRAM_SUB_BITS };

// Values below SUB have a bucket each; above, each power of two is cut into SUB equal parts.
static unsigned bucket_of(uint64_t value) {
  if (value < SUB)
    return (unsigned)value;
  unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
  return ((shift + 1) << HISTOGRAM_SUB_BITS) + (unsigned)((value >> shift) - SUB);
}

static uint64_t middle_of(unsigned bucket) {
  if (bucket < SUB)
    return bucket;
  unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
  uint64_t low = (uint64_t)(SUB + (bucket & (SUB - 1))) << shift;
  return low + (((uint64_t)1 << shift) >> 1);
}

void histogram_add(struct histogram *histogram, uint64_t value) {
  if (histogram->count == 0 || value < histogram->min)
    histogram->min = value;
  if (value > histogram->max)
    histogram->max = value;
  histogram->count++;
  histogram->sum += value;
  histogram->buckets[bucket_of(value)]++;
}

double histogram_mean(const struct histogram *histogram) {
  return histogram->count ? (double)histogram->sum / (double)histogram->count : 0.0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent) {
  if (histogram->count == 0)
    return 0;
  // 99.9 % of 1,000 values are 999 of them, though 99.9 is no number that a double can have.
  double place = percent * (double)histogram->count / 100.0, wanted = ceil(place * (1 - 1e-12));
  uint64_t target = wanted < 1.0 ? 1 : (uint64_t)wanted;
  uint64_t seen = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += histogram->buckets[i];
    if (seen >= target) {
      uint64_t value = middle_of(i);
      if (value < histogram->min)
        return histogram->min;
      return value > histogram->max ? histogram->max : value;
    }
  }
  return histogram->max;
}
