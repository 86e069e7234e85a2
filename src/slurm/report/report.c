// Functions that the reports of a batch share.
#include "slurm/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"

// The highest bandwidth of a benchmark in GB/s, without figures that were refused; 0: there is none.
static double highest_bandwidth(const struct figures *figures) {
  double highest = 0;
  for (uint32_t i = 0; i < figures->num_rows; i++) {
    const struct figure *bandwidth = figures_find(&figures->rows[i], "bandwidth");
    if (bandwidth && !figures->rows[i].refused[0] && strcmp(bandwidth->unit, "GB/s") == 0 && bandwidth->value > highest)
      highest = bandwidth->value;
  }
  return highest;
}

static void read_logs(const struct slurm_record *record, struct slurm_reported *reported) {
  char *directory = slurm_record_path(record, reported->run, "");
  reported->metric = directory ? slurm_report_logs(directory) : 0;
  free(directory);
}

// If the results cannot be read, the report has neither results nor figures; the state of the run gives the reason.
static void read_results(const struct slurm_record *record, struct slurm_reported *reported) {
  const char *path = reported->state->results;
  reported->has_results = path && results_load(&reported->results, path) == 0;
  reported->has_figures = path && !reported->has_results && figures_load(&reported->figures, path) == 0;
  if (reported->has_results)
    reported->metric = results_default_metric(&reported->results);
  else if (reported->has_figures)
    reported->metric = highest_bandwidth(&reported->figures);
  else if (reported->run->as_written && slurm_progress_is_end(reported->state->progress))
    read_logs(record, reported);
}

int slurm_report_open(struct slurm_report *report, const struct slurm_record *record) {
  *report = (struct slurm_report){.record = record,
                                  .states = calloc(record->num_runs, sizeof *report->states),
                                  .runs = calloc(record->num_runs, sizeof *report->runs)};
  int err = report->states && report->runs ? slurm_states_read(record, report->states, &report->silent)
                                           : fail(WEFT_ERR_NOMEM, "no memory for %zu runs", record->num_runs);
  for (size_t i = 0; !err && i < record->num_runs; i++) {
    report->runs[i].run = &record->runs[i];
    report->runs[i].state = &report->states[i];
    read_results(record, &report->runs[i]);
  }
  if (err)
    slurm_report_close(report);
  return err;
}

void slurm_report_close(struct slurm_report *report) {
  for (size_t i = 0; report->runs && i < report->record->num_runs; i++) {
    results_free(&report->runs[i].results);
    if (report->runs[i].has_figures)
      figures_free(&report->runs[i].figures);
  }
  if (report->states)
    slurm_states_free(report->states, report->record->num_runs);
  free(report->states);
  free(report->runs);
  *report = (struct slurm_report){0};
}

const struct results_rank *slurm_report_last(const struct results *results, size_t rank) {
  for (size_t p = results->num_phases; p-- > 0;)
    if (results->phases[p].ranks[rank].state == RESULTS_PASSED)
      return &results->phases[p].ranks[rank];
  return NULL;
}

// A larger bandwidth is better, unless the test file asks for another reward.
static double reward_of(const struct slurm_run_record *run, double metric) {
  if (run->reward == SLURM_REWARD_INVERSE)
    return 1.0 / metric;
  return run->reward == SLURM_REWARD_NEGATIVE ? -metric : metric;
}

bool slurm_report_counts(const struct slurm_reported *one) {
  return one->state->progress == SLURM_PASSED && one->metric > 0;
}

static struct slurm_step *find_step(struct slurm_step *list, size_t *count, const struct slurm_run_record *run) {
  for (size_t i = 0; i < *count; i++)
    if (list[i].run->step == run->step)
      return &list[i];
  list[*count] = (struct slurm_step){.run = run};
  return &list[(*count)++];
}

size_t slurm_report_steps(const struct slurm_report *report, const char *test, struct slurm_step *list) {
  size_t count = 0;
  for (size_t i = 0; i < report->record->num_runs; i++) {
    const struct slurm_reported *one = &report->runs[i];
    if (strcmp(one->run->test, test) != 0)
      continue;
    struct slurm_step *step = find_step(list, &count, one->run);
    step->iterations++;
    if (slurm_report_counts(one)) {
      step->passed++;
      step->metric += one->metric;
    }
  }
  for (size_t i = 0; i < count; i++) {
    list[i].metric = list[i].passed ? list[i].metric / list[i].passed : NAN;
    list[i].reward = list[i].passed ? reward_of(list[i].run, list[i].metric) : NAN;
  }
  return count;
}

const struct slurm_step *slurm_report_best(const struct slurm_step *list, size_t count) {
  const struct slurm_step *best = NULL;
  for (size_t i = 0; i < count; i++)
    if (list[i].passed && (!best || list[i].reward > best->reward))
      best = &list[i];
  return best;
}

bool slurm_report_first(const struct slurm_report *report, size_t run) {
  for (size_t i = 0; i < run; i++)
    if (strcmp(report->record->runs[i].test, report->record->runs[run].test) == 0)
      return false;
  return true;
}

void slurm_report_action(struct text *text, const json_t *action) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)action, key, value) {
    const char *shown = json_string_value(value);
    text_add(text, "%s%s=%s", text->size ? " " : "", key, shown ? shown : "?");
  }
}
