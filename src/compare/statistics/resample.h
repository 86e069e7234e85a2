// The bootstrap of one side of a comparison: what its mean might as well have been.
#ifndef COMPARE_STATISTICS_RESAMPLE_H
#define COMPARE_STATISTICS_RESAMPLE_H

#include "compare/model/run.h"

// What the noise of a side is taken from.
enum resample_kind {
  RESAMPLE_NONE,       // one repeat, and nothing known of its iterations
  RESAMPLE_ITERATIONS, // one repeat: blocks of its samples
  RESAMPLE_ERROR,      // one repeat: the standard error that it reported
  RESAMPLE_REPEATS,    // several repeats: whole ones are drawn
};

struct resample_side {
  enum resample_kind kind;
  double freedom; // degrees of freedom of that noise
};

struct resample_side resample_side_of(const struct compare_series *series);

// Fills out[draws] with logarithms of (mean drawn / mean), each deviation multiplied by sqrt(n / (n - 1)), since the
// mean of n draws deviates by that much too little (Efron 1982). Equal `seed`s draw equal places. NOMEM.
int resample_means(const struct compare_series *series, uint64_t seed, double *out, size_t draws);

// The same for a side with one repeat, which cannot tell how much its runs differ, against one with several: normal,
// with the standard deviation of these.
void resample_borrowed(const struct compare_series *from, uint64_t seed, double *out, size_t draws);

// The standard error of a repeat's mean: what it reported, or by its samples; negative: nobody knows.
double resample_error(const struct compare_repeat *repeat);

#endif
