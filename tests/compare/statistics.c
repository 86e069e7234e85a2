// The statistics of comparisons against known values: tables, and simulations with fixed seeds whose true values are
// known.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cmocka_all.h"
#include "compare/statistics/block_length.h"
#include "compare/statistics/change.h"
#include "compare/statistics/discoveries.h"
#include "compare/statistics/student.h"

enum { MOST = 2000 };

static double uniform(uint64_t *state) {
  return ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
  double u = uniform(state), v = uniform(state);
  return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void the_t_distribution_is_that_of_tables(void **state) {
  (void)state;
  assert_true(fabs(student_quantile(0.05, 1) - 12.706205) < 1e-5);
  assert_true(fabs(student_quantile(0.05, 4) - 2.776445) < 1e-5);
  assert_true(fabs(student_quantile(0.01, 10) - 3.169273) < 1e-5);
  assert_true(fabs(student_quantile(0.05, 2e6) - 1.959964) < 1e-5);
  assert_true(fabs(student_both_tails(2, 10) - 0.073388) < 1e-6);
  assert_true(fabs(student_both_tails(-2, 10) - 0.073388) < 1e-6);
  assert_true(fabs(student_both_tails(1, 1) - 0.5) < 1e-12); // of Cauchy
  assert_true(student_both_tails(0, 5) == 1);
  assert_true(student_both_tails(60, 30) < 1e-30);
}

static void chances_are_adjusted_as_by_hand(void **state) {
  (void)state;
  const double chances[] = {0.01, 0.5, 0.02, 0.03};
  double adjusted[4];
  assert_int_equal(discoveries_adjust(chances, adjusted, 4), 0);
  assert_true(fabs(adjusted[0] - 0.04) < 1e-12);
  assert_true(fabs(adjusted[1] - 0.5) < 1e-12);
  assert_true(fabs(adjusted[2] - 0.04) < 1e-12);
  assert_true(fabs(adjusted[3] - 0.04) < 1e-12);
  assert_int_equal(discoveries_adjust(chances, adjusted, 0), 0);
}

static void blocks_are_longer_where_samples_depend(void **state) {
  (void)state;
  double alone[1000], slow[1000], last = 0;
  uint64_t seed = 7;
  for (size_t i = 0; i < 1000; i++) {
    alone[i] = normal(&seed);
    slow[i] = last = 0.9 * last + alone[i];
  }
  assert_true(block_length(alone, 1000) <= 12);
  assert_true(block_length(slow, 1000) >= 20 && block_length(slow, 1000) <= 125);
  assert_int_equal(block_length(alone, 20), 1);
  for (size_t i = 0; i < 1000; i++)
    alone[i] = 3;
  assert_int_equal(block_length(alone, 1000), 1);
}

// --- simulations ---

// A side: repeats of which each has a level of its own, drift that both sides of a pair share, and iterations that
// depend on the one before.
struct world {
  size_t repeats[2], iterations;
  double between;    // standard deviation of the logarithm of a repeat's level
  double within;     // of an iteration
  double dependence; // from one iteration to the next
  double drift;      // of a pair
  double ratio;      // the truth
  bool paired;
  double percentile; // what is compared; 0: the mean
};

struct side {
  struct compare_series series;
  struct compare_repeat repeats[16];
  double samples[MOST];
};

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double percentile_of(const double *samples, size_t count, double percentile) {
  double sorted[MOST];
  memcpy(sorted, samples, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_size);
  return sorted[(size_t)(percentile * (double)count)];
}

static void make_side(struct side *side, const struct world *world, size_t which, const double *drift, uint64_t *seed) {
  memset(side, 0, sizeof *side);
  side->series = (struct compare_series){.name = "latency", .num_repeats = world->repeats[which]};
  side->series.repeats = side->repeats;
  double scale = which == 1 ? world->ratio : 1;
  for (size_t r = 0; r < world->repeats[which]; r++) {
    double level = 10 * scale * exp(world->between * normal(seed) + drift[r]), last = normal(seed), sum = 0;
    for (size_t i = 0; i < world->iterations; i++) {
      last = world->dependence * last + sqrt(1 - world->dependence * world->dependence) * normal(seed);
      double one = level * exp(world->within * last - world->within * world->within / 2);
      if (world->repeats[which] == 1)
        side->samples[i] = one;
      sum += one;
    }
    side->repeats[r] = (struct compare_repeat){
        .index = (uint32_t)r, .value = sum / (double)world->iterations, .error = -1, .count = world->iterations};
  }
  if (world->repeats[which] == 1) {
    side->repeats[0].samples = side->samples;
    side->repeats[0].num_samples = world->iterations;
    side->repeats[0].percentile = world->percentile;
    if (world->percentile > 0)
      side->repeats[0].value = percentile_of(side->samples, world->iterations, world->percentile);
  }
}

struct outcome {
  double covered, found; // parts of the trials: the truth is inside; 0 is outside
  double width;          // mean, of the ratio
};

static struct outcome simulate(const struct world *world, size_t trials) {
  static struct side a, b;
  struct outcome outcome = {0};
  uint64_t seed = 12345;
  for (size_t t = 0; t < trials; t++) {
    double drift[16];
    struct change change;
    struct change_options options = {.resamples = 500, .seed = t, .paired = world->paired};
    for (size_t r = 0; r < 16; r++)
      drift[r] = world->drift * normal(&seed);
    make_side(&a, world, 0, drift, &seed);
    make_side(&b, world, 1, drift, &seed);
    assert_int_equal(change_estimate(&a.series, &b.series, &options, &change), 0);
    assert_int_not_equal(change.basis, CHANGE_NOTHING);
    outcome.covered += (change.low <= world->ratio - 1 && world->ratio - 1 <= change.high) / (double)trials;
    outcome.found += (change.low > 0 || change.high < 0) / (double)trials;
    outcome.width += (change.high - change.low) / (double)trials;
  }
  if (getenv("WEFT_SHOW"))
    print_message("%zu x %zu repeats, %zu iterations, between %g, within %g, dependence %g, drift %g%s: covered %.3f, "
                  "found %.3f, width %.4f\n",
                  world->repeats[0], world->repeats[1], world->iterations, world->between, world->within,
                  world->dependence, world->drift, world->paired ? ", paired" : "", outcome.covered, outcome.found,
                  outcome.width);
  return outcome;
}

static void intervals_of_iterations_hold_the_truth(void **state) {
  (void)state;
  struct world world = {.repeats = {1, 1}, .iterations = 1000, .within = 0.3, .ratio = 1.02};
  assert_true(fabs(simulate(&world, 600).covered - 0.95) < 0.03);
  world.iterations = 20;
  assert_true(fabs(simulate(&world, 600).covered - 0.95) < 0.04);
  world.within = 1; // a long tail
  world.iterations = 400;
  assert_true(fabs(simulate(&world, 600).covered - 0.95) < 0.04);
}

static void intervals_of_percentiles_hold_the_truth(void **state) {
  (void)state;
  const double percentiles[] = {0.5, 0.95, 0.99};
  for (size_t i = 0; i < 3; i++) {
    struct world world = {
        .repeats = {1, 1}, .iterations = 1000, .within = 0.3, .ratio = 1.02, .percentile = percentiles[i]};
    struct outcome outcome = simulate(&world, 600);
    assert_true(outcome.covered > 0.92 && outcome.covered < 0.99);
    world.dependence = 0.6;
    assert_true(simulate(&world, 600).covered > 0.9);
  }
}

// Iterations that depend on each other: who takes them for independent has an interval of half the width.
static void slow_moments_widen_intervals(void **state) {
  (void)state;
  struct world world = {.repeats = {1, 1}, .iterations = 1000, .within = 0.2, .dependence = 0.6, .ratio = 1};
  assert_true(fabs(simulate(&world, 600).covered - 0.93) < 0.04);
  world.dependence = 0.9;
  assert_true(simulate(&world, 600).covered > 0.85);
}

static void intervals_of_repeats_hold_the_truth(void **state) {
  (void)state;
  const size_t counts[] = {2, 3, 5, 10};
  for (size_t i = 0; i < 4; i++) {
    struct world world = {
        .repeats = {counts[i], counts[i]}, .iterations = 50, .between = 0.03, .within = 0.1, .ratio = 0.9};
    struct outcome outcome = simulate(&world, 1000);
    assert_true(outcome.covered > 0.92 && outcome.covered <= 1);
  }
  struct world world = {.repeats = {4, 8}, .iterations = 50, .between = 0.03, .within = 0.1, .ratio = 1.5};
  assert_true(fabs(simulate(&world, 1000).covered - 0.95) < 0.03);
}

// A baseline of several repeats against one new run: how runs differ is known from the baseline.
static void one_run_borrows_what_runs_differ_by(void **state) {
  (void)state;
  struct world world = {.repeats = {8, 1}, .iterations = 200, .between = 0.03, .within = 0.1, .ratio = 1};
  struct outcome outcome = simulate(&world, 1000);
  assert_true(outcome.covered > 0.92);
  world.repeats[0] = 1; // without it, iterations alone promise too much
  assert_true(simulate(&world, 1000).covered < 0.6);
}

static void pairs_take_away_what_both_sides_share(void **state) {
  (void)state;
  struct world world = {.repeats = {6, 6},
                        .iterations = 50,
                        .between = 0.005,
                        .within = 0.05,
                        .drift = 0.05,
                        .ratio = 1.03,
                        .paired = true};
  struct outcome paired = simulate(&world, 1000);
  world.paired = false;
  struct outcome alone = simulate(&world, 1000);
  assert_true(fabs(paired.covered - 0.95) < 0.03);
  assert_true(paired.width < alone.width / 2);
  assert_true(paired.found > 0.95 && alone.found < 0.5);
}

static void a_change_is_found_and_none_is_not(void **state) {
  (void)state;
  struct world world = {.repeats = {5, 5}, .iterations = 20, .between = 0.01, .within = 0.01, .ratio = 1.05};
  assert_true(simulate(&world, 500).found > 0.99);
  world.ratio = 1;
  assert_true(simulate(&world, 1000).found < 0.08);
}

// --- borders ---

static struct change change_of(struct compare_repeat *a, size_t na, struct compare_repeat *b, size_t nb) {
  struct compare_series left = {.num_repeats = na, .repeats = a}, right = {.num_repeats = nb, .repeats = b};
  struct change_options options = {.resamples = 1000, .seed = 1};
  struct change change;
  assert_int_equal(change_estimate(&left, &right, &options, &change), 0);
  return change;
}

static void single_figures_have_no_interval(void **state) {
  (void)state;
  struct compare_repeat a = {.value = 10, .error = -1}, b = {.value = 11, .error = -1};
  struct change change = change_of(&a, 1, &b, 1);
  assert_true(change.has_ratio && fabs(change.ratio - 0.1) < 1e-12 && change.chance == 1);
  assert_int_equal(change.basis, CHANGE_NOTHING);
  struct compare_repeat twice[] = {{.value = 10, .error = -1}, {.index = 1, .value = 10, .error = -1}};
  assert_int_equal(change_of(twice, 2, &b, 1).basis, CHANGE_NOTHING); // rounded alike, perhaps
}

static void zeros_have_no_percent(void **state) {
  (void)state;
  struct compare_repeat zero = {.value = 0, .error = -1}, one = {.value = 1, .error = -1};
  assert_false(change_of(&zero, 1, &one, 1).has_ratio);
  assert_false(change_of(&one, 1, &zero, 1).has_ratio);
  struct change none = change_of(&zero, 1, &zero, 1);
  assert_true(none.has_ratio && none.ratio == 0);
  double zeros[4] = {0};
  struct compare_repeat sampled = {.value = 0, .error = -1, .num_samples = 4, .samples = zeros};
  assert_true(change_of(&sampled, 1, &sampled, 1).ratio == 0);
  double some[4] = {0, 0, 4, 0}; // a mean that many draws make 0
  struct compare_repeat rare = {.value = 1, .error = -1, .num_samples = 4, .samples = some};
  struct change change = change_of(&rare, 1, &rare, 1);
  assert_true(isfinite(change.low) && isfinite(change.high) && change.low <= 0 && change.high >= 0);
}

static void what_is_far_apart_stays_finite(void **state) {
  (void)state;
  struct compare_repeat tiny = {.value = 1e-300, .error = 1e-310}, large = {.value = 1e15, .error = 1e15};
  struct change change = change_of(&tiny, 1, &large, 1);
  assert_false(change.has_ratio);
  tiny.value = 1;
  change = change_of(&tiny, 1, &large, 1);
  assert_true(change.has_ratio && (change.basis == CHANGE_NOTHING || isfinite(change.high)));
  struct compare_repeat unsure = {.value = 1, .error = 1e15};
  change = change_of(&unsure, 1, &tiny, 1);
  assert_true(change.basis == CHANGE_NOTHING || (isfinite(change.low) && isfinite(change.high)));
  assert_true(change.chance > 0.05);
}

static void what_never_varies_is_exact(void **state) {
  (void)state;
  struct compare_repeat a[3], b[3];
  for (uint32_t i = 0; i < 3; i++) {
    a[i] = (struct compare_repeat){.index = i, .value = 100, .error = -1};
    b[i] = (struct compare_repeat){.index = i, .value = 110, .error = -1};
  }
  struct change change = change_of(a, 3, b, 3);
  assert_int_equal(change.basis, CHANGE_EXACT);
  assert_true(change.chance == 0 && fabs(change.low - 0.1) < 1e-12);
}

// A baseline of three repeats, and one new run.
static void a_count_of_bytes_is_exact(void **state) {
  (void)state;
  struct compare_repeat before[3], after = {.value = 110, .error = -1};
  for (uint32_t i = 0; i < 3; i++)
    before[i] = (struct compare_repeat){.index = i, .value = 100, .error = -1};
  struct compare_series baseline = {.unit = "bytes", .num_repeats = 3, .repeats = before},
                        value = {.unit = "bytes", .num_repeats = 1, .repeats = &after};
  struct change_options options = {.resamples = 1000, .seed = 1};
  struct change change;
  assert_int_equal(change_estimate(&baseline, &value, &options, &change), 0);
  assert_true(change.basis == CHANGE_EXACT && change.chance == 0 && fabs(change.low - 0.1) < 1e-12);
  assert_int_equal(change_estimate(&value, &baseline, &options, &change), 0);
  assert_int_equal(change.basis, CHANGE_EXACT);
  baseline.num_repeats = 2;
  assert_int_equal(change_estimate(&baseline, &value, &options, &change), 0);
  assert_int_equal(change.basis, CHANGE_NOTHING);
  assert_int_equal(change_of(before, 3, &after, 1).basis, CHANGE_NOTHING); // a time, which may be rounded
}

static void a_reported_error_gives_an_interval(void **state) {
  (void)state;
  struct compare_repeat a = {.value = 10, .error = 0.1, .count = 10000},
                        b = {.value = 10.5, .error = 0.1, .count = 10000};
  struct change change = change_of(&a, 1, &b, 1);
  double expected = 1.96 * sqrt(2) * 0.01; // of the logarithm
  assert_int_equal(change.basis, CHANGE_ITERATIONS);
  assert_true(fabs(log1p(change.high) - log1p(change.ratio) - expected) < 0.15 * expected);
  assert_true(change.low > 0 && change.chance < 0.01);
}

static void equal_seeds_give_equal_intervals(void **state) {
  (void)state;
  uint64_t seed = 3;
  double samples[500];
  for (size_t i = 0; i < 500; i++)
    samples[i] = 10 + normal(&seed);
  struct compare_repeat a = {.value = 10, .error = -1, .num_samples = 250, .samples = samples};
  struct compare_repeat b = {.value = 10, .error = -1, .num_samples = 250, .samples = samples + 250};
  struct change one = change_of(&a, 1, &b, 1), other = change_of(&a, 1, &b, 1);
  assert_true(one.low == other.low && one.high == other.high);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_t_distribution_is_that_of_tables),
      cmocka_unit_test(chances_are_adjusted_as_by_hand),
      cmocka_unit_test(blocks_are_longer_where_samples_depend),
      cmocka_unit_test(intervals_of_iterations_hold_the_truth),
      cmocka_unit_test(intervals_of_percentiles_hold_the_truth),
      cmocka_unit_test(slow_moments_widen_intervals),
      cmocka_unit_test(intervals_of_repeats_hold_the_truth),
      cmocka_unit_test(one_run_borrows_what_runs_differ_by),
      cmocka_unit_test(pairs_take_away_what_both_sides_share),
      cmocka_unit_test(a_change_is_found_and_none_is_not),
      cmocka_unit_test(single_figures_have_no_interval),
      cmocka_unit_test(zeros_have_no_percent),
      cmocka_unit_test(what_is_far_apart_stays_finite),
      cmocka_unit_test(what_never_varies_is_exact),
      cmocka_unit_test(a_count_of_bytes_is_exact),
      cmocka_unit_test(a_reported_error_gives_an_interval),
      cmocka_unit_test(equal_seeds_give_equal_intervals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
