// Computes figures: summaries from samples, and bandwidths from bytes and times.
#include <stdlib.h>

#include "measure/results.h"

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static double percentile_us(const uint64_t *sorted, size_t count, size_t percent) {
  size_t place = (count * percent + 99) / 100; // from 1
  return (double)sorted[place - 1] / 1e3;
}

void results_times_from_ns(struct results_times *times, uint64_t *samples, size_t count) {
  *times = (struct results_times){.count = count};
  if (count == 0)
    return;
  qsort(samples, count, sizeof *samples, compare);
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)samples[i];
  times->avg = sum / (double)count / 1e3;
  times->min = (double)samples[0] / 1e3;
  times->p50 = percentile_us(samples, count, 50);
  times->p99 = percentile_us(samples, count, 99);
  times->max = (double)samples[count - 1] / 1e3;
}

double results_gbps(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

double results_rank_gbps(const struct results_rank *rank) {
  return results_gbps(rank->dispatch_logical_bytes + rank->combine_logical_bytes, rank->both.avg);
}

bool results_phase_passed(const struct results_phase *phase) {
  bool passed = false;
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    enum results_state state = phase->ranks[i].state;
    if (state == RESULTS_FAILED || state == RESULTS_UNREACHED || state == RESULTS_INTERRUPTED)
      return false;
    passed |= state == RESULTS_PASSED;
  }
  return passed;
}

double results_phase_gbps(const struct results_phase *phase) {
  double sum = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    if (phase->ranks[i].state == RESULTS_PASSED) {
      sum += results_rank_gbps(&phase->ranks[i]);
      count++;
    }
  }
  return count > 0 ? sum / count : 0;
}

const struct results_phase *results_last_passed(const struct results *results) {
  for (uint32_t i = results->num_phases; i-- > 0;)
    if (results_phase_passed(&results->phases[i]))
      return &results->phases[i];
  return NULL;
}

double results_default_metric(const struct results *results) {
  const struct results_phase *phase = results_last_passed(results);
  return phase ? results_phase_gbps(phase) : 0;
}
