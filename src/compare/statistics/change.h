// The change of one figure from one run to another, and its confidence interval.
#ifndef COMPARE_STATISTICS_CHANGE_H
#define COMPARE_STATISTICS_CHANGE_H

#include "compare/statistics/resample.h"

// The data from which the noise of an interval was estimated.
enum change_basis {
  CHANGE_NOTHING,    // there is no interval
  CHANGE_ITERATIONS, // one repeat on each side: how its iterations differ, but not how runs differ
  CHANGE_REPEATS,    // several repeats on at least one side
  CHANGE_PAIRS,      // repeats that alternated between the sides, compared pair by pair
  CHANGE_EXACT,      // each side has at least three measurements, which are all equal, or a single count of bytes
};

struct change {
  double baseline, value; // means over the repeats
  bool has_ratio;         // false: exactly one of the means is 0, so there is no change in percent
  double ratio;           // value / baseline - 1
  enum change_basis basis;
  double low, high; // of the ratio, at 95 %
  double chance;    // probability of a change at least as large if there is none in truth; 1 without an interval
};

struct change_options {
  size_t resamples;
  uint64_t seed;
  bool paired; // repeats of the two sides with the same index belong together
};

// NOMEM.
int change_estimate(const struct compare_series *baseline, const struct compare_series *value,
                    const struct change_options *options, struct change *change);

#endif
