// Chooses the length of blocks.
#include "compare/statistics/block_length.h"

#include <math.h>
#include <stdbool.h>

enum { LEAST = 64, MOST_LAGS = 160 };

static double covariance(const double *x, size_t count, double mean, size_t lag) {
  double sum = 0;
  for (size_t i = lag; i < count; i++)
    sum += (x[i] - mean) * (x[i - lag] - mean);
  return sum / (double)count;
}

// The last lag whose correlation is more than noise: the `run` lags after it have none.
static size_t last_lag(const double *x, size_t count, double mean, double variance, size_t run, double *cov) {
  double noise = 2 * sqrt(log10((double)count) / (double)count);
  size_t quiet = 0, lag = 1, most = (size_t)ceil(sqrt((double)count)) + run;
  for (; lag <= most && lag < MOST_LAGS && quiet < run; lag++) {
    cov[lag] = covariance(x, count, mean, lag);
    quiet = fabs(cov[lag]) < noise * variance ? quiet + 1 : 0;
  }
  return lag - 1 - quiet;
}

// The flat-top window: 1 up to the half, then down to 0.
static double window(double t) {
  return t <= 0.5 ? 1 : t < 1 ? 2 * (1 - t) : 0;
}

size_t block_length(const double *samples, size_t count) {
  double mean = 0, cov[2 * MOST_LAGS];
  if (count < LEAST)
    return 1;
  for (size_t i = 0; i < count; i++)
    mean += samples[i] / (double)count;
  double variance = covariance(samples, count, mean, 0);
  size_t run = (size_t)fmax(5, ceil(sqrt(log10((double)count))));
  if (variance <= 1e-24 * mean * mean) // all samples are alike, except for rounding
    return 1;
  size_t last = last_lag(samples, count, mean, variance, run, cov), width = 2 * (last > 0 ? last : 1);
  double spectrum = variance, slope = 0;
  for (size_t lag = 1; lag <= width && lag < count && lag < 2 * MOST_LAGS; lag++) {
    double weight = window((double)lag / (double)width);
    if (lag > last) // last_lag() computed the others
      cov[lag] = covariance(samples, count, mean, lag);
    spectrum += 2 * weight * cov[lag];
    slope += 2 * weight * (double)lag * cov[lag];
  }
  double most = floor((double)count / 8), length = 1;
  if (spectrum > 0)
    length = cbrt(2 * slope * slope / (4.0 / 3 * spectrum * spectrum)) * cbrt((double)count);
  else
    length = most;
  return (size_t)fmax(floor(cbrt((double)count)), fmin(most, ceil(length)));
}
