// The bootstrap of one side of a comparison: other values that its mean could have had.
#ifndef COMPARE_STATISTICS_RESAMPLE_H
#define COMPARE_STATISTICS_RESAMPLE_H

#include "compare/model/run.h"

// The data from which the noise of a side is estimated.
enum resample_kind {
  RESAMPLE_NONE,       // one repeat, and its iterations are not known
  RESAMPLE_ITERATIONS, // one repeat: blocks of its samples
  RESAMPLE_ERROR,      // one repeat: the standard error that it reported
  RESAMPLE_REPEATS,    // several repeats: whole repeats are drawn
};

struct resample_side {
  enum resample_kind kind;
  double freedom; // degrees of freedom of that noise
};

struct resample_side resample_side_of(const struct compare_series *series);

// Fills out[draws] with logarithms of (drawn mean / mean). Each deviation is multiplied by sqrt(n / (n - 1)), since the
// mean of n draws deviates too little by this factor (Efron 1982). Equal values of `seed` draw equal positions. NOMEM.
int resample_means(const struct compare_series *series, uint64_t seed, double *out, size_t draws);

// The same for a side with one repeat, which does not show how much runs differ, if the other side has several repeats:
// draws from a normal distribution with the standard deviation of the other side's repeats.
void resample_borrowed(const struct compare_series *from, uint64_t seed, double *out, size_t draws);

// The standard error of a repeat's mean, as reported or computed from its samples; negative: not known.
double resample_error(const struct compare_repeat *repeat);

#endif
