// Percentiles of the histogram against the exact ones of the sorted values.
#include "base/time/histogram.h"
#include "base/random.h"
#include "cmocka_all.h"

#include <math.h>
#include <stdlib.h>

enum { VALUES = 20000 };

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

// The smallest value that `percent` of the values do not exceed.
static uint64_t exact(const uint64_t *sorted, double percent) {
  double place = ceil(percent * VALUES / 100.0 - 1e-6); // such percents are no exact doubles
  return sorted[place < 1.0 ? 0 : (size_t)place - 1];
}

// Fills with values of every size up to `bits` bits, checks percentiles, mean and extremes.
static void check_against_exact(unsigned bits, uint64_t seed) {
  uint64_t *values = malloc(VALUES * sizeof *values);
  struct histogram *histogram = calloc(1, sizeof *histogram);
  assert_non_null(values);
  assert_non_null(histogram);
  double sum = 0;
  for (int i = 0; i < VALUES; i++) {
    uint64_t keep = random_next(&seed) % bits + 1;
    values[i] = random_next(&seed) >> (64 - keep);
    sum += (double)values[i];
    histogram_add(histogram, values[i]);
  }
  qsort(values, VALUES, sizeof *values, compare);
  assert_int_equal(histogram->count, VALUES);
  assert_true(histogram->min == values[0]);
  assert_true(histogram->max == values[VALUES - 1]);
  assert_true(fabs(histogram_mean(histogram) - sum / VALUES) <= 1e-9 * sum / VALUES);
  static const double percents[] = {0, 0.01, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100};
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
    double wanted = (double)exact(values, percents[i]);
    double got = (double)histogram_percentile(histogram, percents[i]);
    // The middle of a bucket is at most half of its width off, and its width is at most 1/64 of its lower end.
    if (fabs(got - wanted) > wanted / 128.0)
      fail_msg("%u bits, p%g: %g instead of %g", bits, percents[i], got, wanted);
  }
  free(histogram);
  free(values);
}

static void percentiles_are_within_half_a_bucket_of_the_exact_ones(void **state) {
  (void)state;
  static const unsigned widths[] = {6, 7, 20, 32, 48};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    check_against_exact(widths[i], 1000 + i);
}

static void small_values_are_exact(void **state) {
  (void)state;
  struct histogram *histogram = calloc(1, sizeof *histogram);
  assert_non_null(histogram);
  for (uint64_t value = 0; value < 64; value++)
    histogram_add(histogram, value);
  for (uint64_t value = 0; value < 64; value++)
    assert_true(histogram_percentile(histogram, (double)(value + 1) / 64.0 * 100.0) == value);
  free(histogram);
}

// One of a thousand values is beyond p99.9, and nothing of a hundred.
static void percents_that_are_no_doubles(void **state) {
  (void)state;
  for (uint64_t count = 100; count <= 100000; count *= 10) {
    struct histogram *histogram = calloc(1, sizeof *histogram);
    assert_non_null(histogram);
    uint64_t beyond = count / 1000;
    for (uint64_t i = 0; i < count; i++)
      histogram_add(histogram, i < count - beyond ? 1 : 50);
    assert_int_equal(histogram_percentile(histogram, 99.9), 1);
    assert_int_equal(histogram_percentile(histogram, 99.91), beyond > 0 ? 50 : 1);
    free(histogram);
  }
}

static void the_largest_and_smallest_values_have_a_bucket(void **state) {
  (void)state;
  struct histogram *histogram = calloc(1, sizeof *histogram);
  assert_non_null(histogram);
  histogram_add(histogram, UINT64_MAX);
  assert_true(histogram_percentile(histogram, 50) == UINT64_MAX);
  histogram_add(histogram, 0);
  assert_true(histogram_percentile(histogram, 50) == 0);
  assert_true(histogram_percentile(histogram, 100) >= UINT64_MAX - UINT64_MAX / 128);
  free(histogram);
}

static void an_empty_one_answers_zero(void **state) {
  (void)state;
  struct histogram *histogram = calloc(1, sizeof *histogram);
  assert_non_null(histogram);
  assert_true(histogram_percentile(histogram, 99) == 0);
  assert_true(histogram_mean(histogram) == 0.0);
  free(histogram);
}

static void a_single_value_is_every_percentile(void **state) {
  (void)state;
  struct histogram *histogram = calloc(1, sizeof *histogram);
  assert_non_null(histogram);
  histogram_add(histogram, 1000003);
  for (int percent = 0; percent <= 100; percent += 10)
    assert_true(histogram_percentile(histogram, percent) == 1000003);
  free(histogram);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(percentiles_are_within_half_a_bucket_of_the_exact_ones),
      cmocka_unit_test(small_values_are_exact),
      cmocka_unit_test(percents_that_are_no_doubles),
      cmocka_unit_test(the_largest_and_smallest_values_have_a_bucket),
      cmocka_unit_test(an_empty_one_answers_zero),
      cmocka_unit_test(a_single_value_is_every_percentile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
