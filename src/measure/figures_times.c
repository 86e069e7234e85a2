// Makes a figure from durations.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "measure/figures.h"

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

// Percentile by nearest rank: the smallest value such that at least `tenths` tenths of a percent of all values are not
// above it.
static double percentile_us(const uint64_t *sorted, size_t count, size_t tenths) {
  size_t place = (count * tenths + 999) / 1000; // from 1
  return (double)sorted[place - 1] / 1e3;
}

static void describe(struct figure *figure, const uint64_t *sorted, size_t count) {
  figure->count = count;
  figure->min = (double)sorted[0] / 1e3;
  figure->p50 = percentile_us(sorted, count, 500);
  figure->p95 = percentile_us(sorted, count, 950);
  figure->p99 = percentile_us(sorted, count, 990);
  figure->p999 = percentile_us(sorted, count, 999);
  figure->max = (double)sorted[count - 1] / 1e3;
}

size_t figures_place(size_t part, size_t parts, size_t count) {
  size_t from = part * count / parts, size = (part + 1) * count / parts - from;
  uint32_t within = (uint32_t)part * UINT32_C(0x9e3779b9); // 2^32 by the golden ratio: such multiples are spread evenly
  return from + (size_t)((uint64_t)within * size >> 32);
}

static int keep_samples(struct figure *figure, const uint64_t *samples, size_t count) {
  size_t kept = count < FIGURES_MAX_SAMPLES ? count : FIGURES_MAX_SAMPLES;
  figure->samples = json_array();
  for (size_t i = 0; figure->samples && i < kept; i++) {
    double us = (double)samples[figures_place(i, kept, count)] / 1e3;
    if (json_array_append_new(figure->samples, json_real(digits_rounded(us))))
      return fail(WEFT_ERR_NOMEM, "no memory for the results");
  }
  return figure->samples ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

struct figure *figures_add_times(struct figures_row *row, const char *name, const uint64_t *samples, size_t count) {
  struct figure *figure = figures_add(row, name, "us", FIGURE_LOWER, 0);
  if (!figure || count == 0)
    return figure;
  uint64_t *sorted = malloc(count * sizeof *sorted);
  if (!sorted) {
    fail(WEFT_ERR_NOMEM, "no memory for the results");
    return NULL;
  }
  memcpy(sorted, samples, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare);
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)sorted[i];
  figure->value = sum / (double)count / 1e3;
  describe(figure, sorted, count);
  free(sorted);
  return keep_samples(figure, samples, count) == 0 ? figure : NULL;
}
