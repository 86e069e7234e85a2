// Bootstrap of the logarithm of a ratio of means. The interval is its percentile interval, widened from the normal
// distribution to Student's t for few measurements (Hesterberg 2015, "What Teachers Should Know About the Bootstrap",
// 5.2 on intervals that are too narrow for small samples); the degrees of freedom follow Welch 1947. The chance is
// computed from t with the bootstrap's standard error.
#include "compare/statistics/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/random.h"
#include "compare/statistics/student.h"

static const double level = 0.05; // chance of a value outside the interval

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double variance(const double *x, size_t count) {
  double mean = 0, sum = 0;
  for (size_t i = 0; i < count; i++)
    mean += x[i] / (double)count;
  for (size_t i = 0; i < count; i++)
    sum += (x[i] - mean) * (x[i] - mean);
  return count > 1 ? sum / (double)(count - 1) : 0;
}

// Interpolates between the two nearest values.
static double quantile(const double *sorted, size_t count, double part) {
  double at = part * (double)(count - 1);
  size_t below = (size_t)at;
  double over = at - (double)below;
  return below + 1 < count ? sorted[below] * (1 - over) + sorted[below + 1] * over : sorted[below];
}

// The number of measurements if all are alike, else 0.
static size_t alike(const struct compare_series *series) {
  const struct compare_repeat *one = &series->repeats[0];
  for (size_t i = 1; i < series->num_repeats; i++)
    if (series->repeats[i].value != one->value)
      return 0;
  for (size_t i = 1; series->num_repeats == 1 && i < one->num_samples; i++)
    if (one->samples[i] != one->samples[0])
      return 0;
  return series->num_repeats > 1 ? series->num_repeats : one->num_samples;
}

static bool can_pair(const struct compare_series *a, const struct compare_series *b) {
  bool equal = a->num_repeats == b->num_repeats && a->num_repeats > 1;
  for (size_t i = 0; equal && i < a->num_repeats; i++)
    equal = a->repeats[i].index == b->repeats[i].index;
  return equal;
}

struct drawn {
  double *low, *high; // [resamples] logarithms of drawn means: of the baseline, of the value
  double freedom;
  enum change_basis basis;
};

// Draws both sides. Paired sides draw the same places, so that effects common to both cancel.
static int draw(const struct compare_series *a, const struct compare_series *b, const struct change_options *options,
                struct drawn *drawn) {
  struct resample_side left = resample_side_of(a), right = resample_side_of(b);
  uint64_t seed = options->seed, other = random_mix(seed ^ 0x5bd1e995);
  size_t draws = options->resamples;
  bool paired = options->paired && can_pair(a, b);
  bool borrow_left = left.kind != RESAMPLE_REPEATS && right.kind == RESAMPLE_REPEATS;
  bool borrow_right = right.kind != RESAMPLE_REPEATS && left.kind == RESAMPLE_REPEATS;
  if (!borrow_left && !borrow_right && (left.kind == RESAMPLE_NONE || right.kind == RESAMPLE_NONE))
    return 0;
  int err = 0;
  if (borrow_left)
    resample_borrowed(b, seed, drawn->low, draws);
  else
    err = resample_means(a, seed, drawn->low, draws);
  if (!err && borrow_right)
    resample_borrowed(a, other, drawn->high, draws);
  else if (!err)
    err = resample_means(b, paired ? seed : other, drawn->high, draws);
  double u = variance(drawn->low, draws), v = variance(drawn->high, draws);
  if (borrow_left || borrow_right)
    drawn->freedom = borrow_left ? right.freedom : left.freedom;
  else if (paired)
    drawn->freedom = left.freedom;
  else
    drawn->freedom = u + v > 0 ? (u + v) * (u + v) / (u * u / left.freedom + v * v / right.freedom) : 1;
  drawn->basis = paired                                                            ? CHANGE_PAIRS
                 : left.kind == RESAMPLE_REPEATS || right.kind == RESAMPLE_REPEATS ? CHANGE_REPEATS
                                                                                   : CHANGE_ITERATIONS;
  return err;
}

static void conclude(struct change *change, struct drawn *drawn, size_t draws) {
  double log_ratio = log1p(change->ratio), *deviations = drawn->low;
  for (size_t r = 0; r < draws; r++)
    deviations[r] = drawn->high[r] - drawn->low[r];
  double error = sqrt(variance(deviations, draws));
  qsort(deviations, draws, sizeof *deviations, by_size);
  if (!(error > 0))
    return;
  double widen = student_quantile(level, drawn->freedom) / student_quantile(level, 1e9);
  change->low = expm1(log_ratio + widen * quantile(deviations, draws, level / 2));
  change->high = expm1(log_ratio + widen * quantile(deviations, draws, 1 - level / 2));
  change->chance = student_both_tails(log_ratio / error, drawn->freedom);
  if (isfinite(change->low) && isfinite(change->high))
    change->basis = drawn->basis;
  else // an infinite interval is no evidence
    change->chance = 1;
}

// Bytes are counted, so a single count is as exact as several; other single figures may be rounded.
static bool is_single_count(const struct compare_series *series) {
  return strcmp(series->unit, "bytes") == 0 && series->num_repeats == 1 && series->repeats[0].num_samples == 0;
}

static bool are_exact(const struct compare_series *a, const struct compare_series *b) {
  enum { ENOUGH = 3 };
  bool left = alike(a) >= ENOUGH, right = alike(b) >= ENOUGH;
  return (left && right) || (left && is_single_count(b)) || (right && is_single_count(a));
}

int change_estimate(const struct compare_series *baseline, const struct compare_series *value,
                    const struct change_options *options, struct change *change) {
  struct change found = {.baseline = compare_series_mean(baseline), .value = compare_series_mean(value), .chance = 1};
  found.has_ratio = found.baseline > 0 && found.value > 0 && isfinite(found.value / found.baseline);
  if (found.baseline == 0 && found.value == 0)
    found.has_ratio = true; // both are 0: no change
  else if (found.has_ratio)
    found.ratio = found.value / found.baseline - 1;
  struct drawn drawn = {.low = malloc(options->resamples * sizeof(double)),
                        .high = malloc(options->resamples * sizeof(double))};
  int err = drawn.low && drawn.high ? 0 : fail(WEFT_ERR_NOMEM, "no memory to compare");
  if (!err && found.has_ratio && found.baseline > 0)
    err = draw(baseline, value, options, &drawn);
  if (!err && drawn.basis != CHANGE_NOTHING)
    conclude(&found, &drawn, options->resamples);
  if (!err && found.basis == CHANGE_NOTHING && found.has_ratio && are_exact(baseline, value)) {
    found.basis = CHANGE_EXACT;
    found.low = found.high = found.ratio;
    found.chance = found.ratio != 0 ? 0 : 1;
  }
  free(drawn.low);
  free(drawn.high);
  if (!err)
    *change = found;
  return err;
}
