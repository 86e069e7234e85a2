// The change of one figure from one run to another, and how sure it is.
#ifndef COMPARE_STATISTICS_CHANGE_H
#define COMPARE_STATISTICS_CHANGE_H

#include "compare/statistics/resample.h"

// Where the noise of an interval comes from.
enum change_basis {
  CHANGE_NOTHING,    // there is no interval
  CHANGE_ITERATIONS, // one repeat on each side: how the iterations of these differ, and not how runs do
  CHANGE_REPEATS,    // several on at least one side
  CHANGE_PAIRS,      // repeats that alternated, compared pair by pair
  CHANGE_EXACT,      // at least three measurements on each side that are all alike
};

struct change {
  double baseline, value; // means over the repeats
  bool has_ratio;         // false: one of them is 0, so there is no change in percent
  double ratio;           // value / baseline - 1
  enum change_basis basis;
  double low, high; // of the ratio, at 95 %
  double chance;    // of a change at least as large where there is none; 1 without an interval
};

struct change_options {
  size_t resamples;
  uint64_t seed;
  bool paired; // repeats of the two sides belong together, by their index
};

// NOMEM.
int change_estimate(const struct compare_series *baseline, const struct compare_series *value,
                    const struct change_options *options, struct change *change);

#endif
