// Reads the results.json of an elastic run. There is a row for each phase and operation, with means over the ranks that
// passed it, and a row for each phase and kind of change.
#include <string.h>

#include <weft/err.h>

#include "compare/read/read.h"
#include "measure/results.h"

static bool is_results(const struct compare_text *text) {
  return json_object_get(text->json, "weft_results") != NULL;
}

// Means and extremes over ranks.
struct sum {
  double avg, p50, p99, gbps, wire;
  uint32_t ranks;
};

static const struct results_times *times_of(const struct results_rank *rank, const char *op) {
  return strcmp(op, "dispatch") == 0 ? &rank->dispatch : strcmp(op, "combine") == 0 ? &rank->combine : &rank->both;
}

static void bytes_of(const struct results_rank *rank, const char *op, double *logical, double *wire) {
  bool dispatch = strcmp(op, "combine") != 0, combine = strcmp(op, "dispatch") != 0;
  *logical = (dispatch ? rank->dispatch_logical_bytes : 0) + (combine ? rank->combine_logical_bytes : 0);
  *wire = (dispatch ? rank->dispatch_wire_bytes : 0) + (combine ? rank->combine_wire_bytes : 0);
}

static struct sum sum_of(const struct results_phase *phase, const char *op) {
  struct sum sum = {0};
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    const struct results_times *times = times_of(rank, op);
    double logical, wire;
    if (rank->state != RESULTS_PASSED || times->count == 0)
      continue;
    bytes_of(rank, op, &logical, &wire);
    sum.ranks++;
    sum.avg += times->avg;
    sum.p50 += times->p50;
    sum.p99 += times->p99;
    sum.gbps += results_gbps(logical, times->avg);
    sum.wire += results_gbps(wire, times->avg);
  }
  return sum;
}

static int add(struct compare_run *run, struct compare_row *row, uint32_t base, const char *name, const char *unit,
               double value) {
  struct compare_figure one = {.name = name,
                               .unit = unit,
                               .higher = strcmp(unit, "GB/s") == 0,
                               .detail = strstr(name, "_p") != NULL,
                               .value = value,
                               .error = -1};
  return compare_row_add(run, row, base, &one);
}

static int add_operation(struct compare_run *run, uint32_t base, const struct results_phase *phase, const char *op) {
  struct sum sum = sum_of(phase, op);
  if (sum.ranks == 0)
    return 0;
  struct compare_row *row =
      compare_run_row(run, json_pack("{s:i, s:s, s:i}", "phase", (int)phase->index, "op", op, "ranks", (int)sum.ranks));
  int err = row ? add(run, row, base, "latency", "us", sum.avg / sum.ranks) : WEFT_ERR_NOMEM;
  if (!err)
    err = add(run, row, base, "latency_p50", "us", sum.p50 / sum.ranks);
  if (!err)
    err = add(run, row, base, "latency_p99", "us", sum.p99 / sum.ranks);
  if (!err)
    err = add(run, row, base, "logical_bandwidth", "GB/s", sum.gbps / sum.ranks);
  return err ? err : add(run, row, base, "wire_bandwidth", "GB/s", sum.wire / sum.ranks);
}

static const char *const changes[] = {[RESULTS_JOIN] = "join", [RESULTS_LEAVE] = "leave", [RESULTS_KILL] = "kill"};

// The mean over a phase's changes of one kind, of the durations that apply; negative: there is none.
static double mean_change(const struct results *results, uint32_t phase, enum results_change change, size_t offset) {
  double total = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < results->num_transitions; i++) {
    const struct results_transition *one = &results->transitions[i];
    double us = *(const double *)(const void *)((const char *)one + offset);
    if (one->phase == phase && one->change == change && us >= 0) {
      total += us;
      count++;
    }
  }
  return count > 0 ? total / count : -1;
}

static int add_change(struct compare_run *run, uint32_t base, const struct results *results, uint32_t phase,
                      enum results_change change) {
  static const struct {
    const char *name;
    size_t offset;
  } durations[] = {
      {"connect", offsetof(struct results_transition, connect_us)},
      {"first_dispatch", offsetof(struct results_transition, first_dispatch_us)},
      {"longest_stall", offsetof(struct results_transition, longest_stall_us)},
      {"membership_stall", offsetof(struct results_transition, membership_stall_us)},
      {"detect", offsetof(struct results_transition, detect_us)},
  };
  int err = 0;
  for (size_t i = 0; !err && i < sizeof durations / sizeof *durations; i++) {
    double us = mean_change(results, phase, change, durations[i].offset);
    if (us < 0)
      continue;
    struct compare_row *row = compare_run_row(run, json_pack("{s:i, s:s}", "phase", (int)phase, "op", changes[change]));
    err = row ? add(run, row, base, durations[i].name, "us", us) : WEFT_ERR_NOMEM;
  }
  return err;
}

static int read_results(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct results results = {0};
  int err = results_from_json(&results, text->json);
  if (err)
    return err;
  err = compare_run_repeats(run, base + 1, 0);
  if (!results.passed)
    snprintf(run->remark, sizeof run->remark, "the run did not pass%s%.200s", *results.error ? ": " : "",
             results.error);
  for (uint32_t i = 0; !err && i < results.num_phases; i++) {
    static const char *const ops[] = {"dispatch", "combine", "both"};
    for (size_t k = 0; !err && k < sizeof ops / sizeof *ops; k++)
      err = add_operation(run, base, &results.phases[i], ops[k]);
    for (enum results_change change = RESULTS_JOIN; !err && change <= RESULTS_KILL; change++)
      err = add_change(run, base, &results, results.phases[i].index, change);
  }
  results_free(&results);
  return err;
}

const struct compare_reader compare_read_results = {
    .name = "results of weft elastic",
    .is = is_results,
    .read = read_results,
};
