// Draws means. A side with several repeats draws whole repeats and no iterations within them: the differences between
// repeats hold the noise of their iterations already (Davison and Hinkley 1997, "Bootstrap Methods and their
// Application", 3.8).
#include "compare/statistics/resample.h"

#include <math.h>
#include <stdlib.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/random.h"
#include "compare/statistics/block_length.h"

enum { LEAST_SAMPLES = 2, LEAST_BEYOND = 5 }; // LEAST_BEYOND: samples beyond a percentile that it needs

// A random place below `count`, from the upper bits of a random number.
static size_t place(uint64_t *state, size_t count) {
  return (size_t)(((random_next(state) >> 32) * (uint64_t)count) >> 32);
}

// A random number of the normal distribution (Box and Muller 1958).
static double normal(uint64_t *state) {
  double u = ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0; // 2^53
  double v = (double)(random_next(state) >> 11) / 9007199254740992.0;
  return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

// The logarithm of 1 + deviation; a mean cannot fall to 0.
static double log_of(double deviation) {
  return log1p(fmax(deviation, -0.999999));
}

static bool has_samples(const struct compare_repeat *one) {
  double beyond = one->percentile > 0 ? (double)one->num_samples * (1 - one->percentile) : LEAST_BEYOND;
  return one->num_samples >= LEAST_SAMPLES && beyond >= LEAST_BEYOND - 1e-9;
}

struct resample_side resample_side_of(const struct compare_series *series) {
  const struct compare_repeat *one = &series->repeats[0];
  if (series->num_repeats > 1)
    return (struct resample_side){RESAMPLE_REPEATS, (double)series->num_repeats - 1};
  if (has_samples(one)) {
    double blocks = (double)one->num_samples / (double)block_length(one->samples, one->num_samples);
    return (struct resample_side){RESAMPLE_ITERATIONS, fmax(1, blocks - 1)};
  }
  if (one->error >= 0)
    return (struct resample_side){RESAMPLE_ERROR, one->count > 1 ? (double)one->count - 1 : 1e9};
  return (struct resample_side){RESAMPLE_NONE, 0};
}

static void draw_repeats(const struct compare_series *series, uint64_t state, double *out, size_t draws) {
  size_t count = series->num_repeats;
  double mean = compare_series_mean(series), grow = sqrt((double)count / (double)(count - 1));
  for (size_t r = 0; r < draws; r++) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
      sum += series->repeats[place(&state, count)].value;
    out[r] = log_of(grow * (sum / (double)count / mean - 1));
  }
}

void resample_borrowed(const struct compare_series *from, uint64_t seed, double *out, size_t draws) {
  uint64_t state = seed;
  double mean = compare_series_mean(from), squares = 0;
  for (size_t i = 0; i < from->num_repeats; i++)
    squares += (from->repeats[i].value / mean - 1) * (from->repeats[i].value / mean - 1);
  double deviation = sqrt(squares / (double)(from->num_repeats - 1));
  for (size_t r = 0; r < draws; r++)
    out[r] = log_of(deviation * normal(&state));
}

// Sums of the samples before each place, over the samples twice, so that a block may begin at any place.
static double *sums_around(const double *samples, size_t count, double mean) {
  double *sums = malloc((2 * count + 1) * sizeof *sums);
  if (!sums)
    return NULL;
  sums[0] = 0;
  for (size_t i = 0; i < 2 * count; i++)
    sums[i + 1] = sums[i] + (samples[i % count] - mean);
  return sums;
}

// The circular block bootstrap (Politis and Romano 1992): out[draws] are deviations of the drawn means from the mean.
static int draw_blocks(const double *samples, size_t count, size_t length, double mean, uint64_t state, double *out,
                       size_t draws) {
  size_t blocks = count / length, last = count % length;
  double units = (double)count / (double)length, grow = units > 1 ? sqrt(units / (units - 1)) : 1;
  double *sums = sums_around(samples, count, mean);
  if (!sums)
    return fail(WEFT_ERR_NOMEM, "no memory to compare samples");
  for (size_t r = 0; r < draws; r++) {
    double sum = 0;
    for (size_t b = 0; b < blocks; b++) {
      size_t from = place(&state, count);
      sum += sums[from + length] - sums[from];
    }
    if (last > 0) {
      size_t from = place(&state, count);
      sum += sums[from + last] - sums[from];
    }
    out[r] = grow * sum / (double)count;
  }
  free(sums);
  return 0;
}

static int draw_means(const struct compare_repeat *one, uint64_t state, double *out, size_t draws) {
  double mean = 0;
  for (size_t i = 0; i < one->num_samples; i++)
    mean += one->samples[i] / (double)one->num_samples;
  size_t length = block_length(one->samples, one->num_samples);
  int err = draw_blocks(one->samples, one->num_samples, length, mean, state, out, draws);
  for (size_t r = 0; !err && r < draws; r++)
    out[r] = mean > 0 ? log_of(out[r] / mean) : 0;
  return err;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The variation of a percentile follows from the share of the samples below it (Bahadur 1966). So this draws that
// share, and reads the percentile from the sorted samples; the draws themselves need not be sorted.
static int draw_percentiles(const struct compare_repeat *one, uint64_t state, double *out, size_t draws) {
  size_t count = one->num_samples;
  double *sorted = malloc(2 * count * sizeof *sorted), *below = sorted + count, part = 0;
  if (!sorted)
    return fail(WEFT_ERR_NOMEM, "no memory to compare samples");
  for (size_t i = 0; i < count; i++)
    sorted[i] = one->samples[i];
  qsort(sorted, count, sizeof *sorted, by_size);
  double found = sorted[(size_t)fmin((double)count - 1, one->percentile * (double)count)];
  for (size_t i = 0; i < count; i++) {
    below[i] = one->samples[i] <= found;
    part += below[i] / (double)count;
  }
  int err = draw_blocks(below, count, block_length(one->samples, count), part, state, out, draws);
  for (size_t r = 0; !err && r < draws; r++) {
    double at = fmax(0, fmin((double)count - 1, (one->percentile - out[r]) * (double)count));
    out[r] = found > 0 ? log_of(sorted[(size_t)at] / found - 1) : 0;
  }
  free(sorted);
  return err;
}

int resample_means(const struct compare_series *series, uint64_t seed, double *out, size_t draws) {
  const struct compare_repeat *one = &series->repeats[0];
  uint64_t state = seed;
  switch (resample_side_of(series).kind) {
  case RESAMPLE_REPEATS:
    draw_repeats(series, seed, out, draws);
    return 0;
  case RESAMPLE_ITERATIONS:
    return one->percentile > 0 ? draw_percentiles(one, seed, out, draws) : draw_means(one, seed, out, draws);
  case RESAMPLE_ERROR:
    for (size_t r = 0; r < draws; r++)
      out[r] = log_of(one->error / one->value * normal(&state));
    return 0;
  default:
    for (size_t r = 0; r < draws; r++)
      out[r] = 0;
    return 0;
  }
}

double resample_error(const struct compare_repeat *repeat) {
  enum { DRAWS = 1000 };
  struct compare_repeat copy = *repeat;
  struct compare_series alone = {.num_repeats = 1, .repeats = &copy};
  double *means = NULL, sum = 0;
  if (!has_samples(repeat) || repeat->value <= 0)
    return repeat->error;
  means = malloc(DRAWS * sizeof *means);
  if (!means || resample_means(&alone, 1, means, DRAWS)) {
    free(means);
    return repeat->error;
  }
  for (size_t r = 0; r < DRAWS; r++)
    sum += means[r] * means[r];
  free(means);
  return repeat->value * sqrt(sum / DRAWS);
}
