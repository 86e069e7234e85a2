// The report of a batch for programs: JSON, CSV, the trajectories of grids, and the tables of benchmarks.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/csv.h"
#include "base/text/text.h"
#include "measure/report.h"
#include "measure/whole_file.h"
#include "slurm/report/report.h"

// --- CSV: a record for each run and rank ---

static const char header[] = "run,test,step,iteration,job,task,state,why,default_gbps,node,rank,phases,phases_passed,"
                             "gbps,avg_us,min_us,p99_us,max_us\r\n";

static void put_run(FILE *out, const struct slurm_report *report, const struct slurm_reported *one) {
  uint32_t job = report->record->jobs[one->run->job].id;
  csv_write_text(out, one->run->id);
  fputc(',', out);
  csv_write_text(out, one->run->test);
  fprintf(out, ",%u,%u,", one->run->step, one->run->iteration);
  if (job)
    fprintf(out, "%u", job);
  fputc(',', out);
  if (one->run->task >= 0)
    fprintf(out, "%d", one->run->task);
  fprintf(out, ",%s,", slurm_progress_name(one->state->progress));
  csv_write_text(out, one->state->reason);
  fputc(',', out);
  if (one->metric > 0)
    fprintf(out, "%.6g", one->metric);
}

static void put_rank(FILE *out, const struct results *results, size_t rank) {
  const struct results_rank *last = slurm_report_last(results, rank);
  const char *host = "";
  uint32_t passed = 0;
  for (uint32_t p = 0; p < results->num_phases; p++) {
    const struct results_rank *in = &results->phases[p].ranks[rank];
    passed += in->state == RESULTS_PASSED;
    host = in->host[0] ? in->host : host;
  }
  fputc(',', out);
  csv_write_text(out, host);
  fprintf(out, ",%d,%u,%u", results->phases[0].ranks[rank].rank, results->num_phases, passed);
  if (last && last->both.count > 0)
    fprintf(out, ",%.6g,%.3f,%.3f,%.3f,%.3f", results_rank_gbps(last), last->both.avg, last->both.min, last->both.p99,
            last->both.max);
  else
    fputs(",,,,,", out);
  fputs("\r\n", out);
}

void slurm_report_csv(FILE *out, const struct slurm_report *report) {
  fputs(header, out);
  for (size_t i = 0; i < report->record->num_runs; i++) {
    const struct slurm_reported *one = &report->runs[i];
    uint32_t ranks = one->has_results && one->results.num_phases > 0 ? one->results.phases[0].num_ranks : 0;
    for (uint32_t r = 0; r < ranks; r++) {
      put_run(out, report, one);
      put_rank(out, &one->results, r);
    }
    if (ranks == 0) {
      put_run(out, report, one);
      fputs(",,,,,,,,,\r\n", out);
    }
  }
}

// --- JSON ---

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *run_to_json(const struct slurm_report *report, const struct slurm_reported *one) {
  json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:I, s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o}", "id", one->run->id,
                           "test", one->run->test, "step", (int)one->run->step, "iteration", (int)one->run->iteration,
                           "job", (json_int_t)report->record->jobs[one->run->job].id, "task", (int)one->run->task,
                           "state", slurm_progress_name(one->state->progress), "job_state", one->state->job_state,
                           "why", one->state->reason, "directory", one->run->directory, "phase", (int)one->state->phase,
                           "phases", (int)one->run->phases, "action",
                           one->run->action ? json_incref((json_t *)one->run->action) : json_object(), "default",
                           one->metric > 0 ? json_real(one->metric) : json_null());
  if (json && one->has_results)
    json_object_set_new(json, "results", results_to_json(&one->results));
  if (json && one->has_figures)
    json_object_set_new(json, "figures", figures_to_json(&one->figures));
  return json;
}

static json_t *lead_to_json(const struct slurm_lead *lead) {
  json_t *json = json_pack("{s:s, s:i, s:o, s:o}", "run", lead->best->run->id, "step", (int)lead->best->run->step,
                           "default", number(lead->best->metric), "reward", number(lead->best->reward));
  if (json && lead->next)
    json_object_set_new(json, "against_next",
                        json_pack("{s:i, s:o, s:o, s:o, s:b}", "step", (int)lead->next->run->step, "change_percent",
                                  number(lead->percent), "low_percent", number(lead->has_interval ? lead->low : NAN),
                                  "high_percent", number(lead->has_interval ? lead->high : NAN), "significant",
                                  (int)lead->significant));
  return json;
}

static json_t *best_of(const struct slurm_report *report) {
  json_t *json = json_object();
  struct slurm_step *list = calloc(report->record->num_runs, sizeof *list);
  for (size_t i = 0; list && i < report->record->num_runs; i++) {
    const char *test = report->record->runs[i].test;
    size_t count = slurm_report_first(report, i) ? slurm_report_steps(report, test, list) : 0;
    struct slurm_lead lead;
    if (count > 1 && slurm_report_lead(&lead, report, list, count) == 0 && lead.best)
      json_object_set_new(json, test, lead_to_json(&lead));
  }
  free(list);
  return json;
}

int slurm_report_json(FILE *out, const struct slurm_report *report) {
  json_t *runs = json_array();
  size_t passed = 0;
  for (size_t i = 0; i < report->record->num_runs; i++) {
    passed += report->runs[i].state->progress == SLURM_PASSED;
    json_array_append_new(runs, run_to_json(report, &report->runs[i]));
  }
  json_t *json =
      json_pack("{s:s, s:b, s:i, s:o, s:o}", "name", report->record->name, "passed", passed == report->record->num_runs,
                "runs_passed", (int)passed, "best", best_of(report), "runs", runs);
  int err =
      json && json_dumpf(json, out, REPORT_JSON_FLAGS) == 0 ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the report");
  fputc('\n', out);
  json_decref(json);
  return err;
}

// --- trajectories ---

struct trajectory {
  const struct slurm_step *list;
  size_t count;
};

static int write_trajectory(FILE *out, const void *arg) {
  const struct trajectory *trajectory = arg;
  const char *key;
  json_t *value;
  json_t *first = (json_t *)trajectory->list[0].run->action;
  fputs("step", out);
  json_object_foreach(first, key, value) fprintf(out, ",action.%s", key);
  fputs(",reward,observation.default\r\n", out);
  for (size_t i = 0; i < trajectory->count; i++) {
    const struct slurm_step *step = &trajectory->list[i];
    fprintf(out, "%u", step->run->step);
    json_object_foreach(first, key, value) {
      const char *chosen = json_string_value(json_object_get(step->run->action, key));
      fputc(',', out);
      csv_write_text(out, chosen ? chosen : "");
    }
    if (step->passed)
      fprintf(out, ",%.6g,%.6g\r\n", step->reward, step->metric);
    else
      fputs(",,\r\n", out);
  }
  return 0;
}

// Writes it under its name in the batch's directory, and under the name that CloudAI's users look for.
static int save_trajectory(const struct slurm_report *report, const char *test, const struct trajectory *trajectory) {
  int err = 0;
  for (int i = 0; !err && i < 2; i++) {
    struct text path = {0};
    text_add(&path, i ? "%s/%s/trajectory.csv" : "%s/trajectory-%s.csv", report->record->directory, test);
    err = path.failed ? fail(WEFT_ERR_NOMEM, "no memory for a path")
                      : whole_file_save(path.data, write_trajectory, trajectory);
    text_free(&path);
  }
  return err;
}

int slurm_report_trajectories(const struct slurm_report *report) {
  struct slurm_step *list = calloc(report->record->num_runs, sizeof *list);
  int err = list ? 0 : fail(WEFT_ERR_NOMEM, "no memory for steps");
  for (size_t i = 0; !err && i < report->record->num_runs; i++) {
    const char *test = report->record->runs[i].test;
    struct trajectory trajectory = {list, slurm_report_first(report, i) ? slurm_report_steps(report, test, list) : 0};
    if (trajectory.count > 1)
      err = save_trajectory(report, test, &trajectory);
  }
  free(list);
  return err;
}

// --- tables of benchmarks ---

static json_int_t count_of(const struct figures_row *row, const char *key, json_int_t preset) {
  const json_t *value = json_object_get(row->keys, key);
  return json_is_integer(value) ? json_integer_value(value) : preset;
}

static int write_table(FILE *out, const void *arg) {
  const struct figures *figures = arg;
  fputs("block_size,batch_size,avg_lat,bw_gb_sec\r\n", out);
  for (uint32_t r = 0; r < figures->num_rows; r++) {
    const struct figures_row *row = &figures->rows[r];
    const struct figure *bandwidth = figures_find(row, "bandwidth");
    json_int_t bytes = count_of(row, "bytes", 0), initiators = count_of(row, "initiators", 1);
    if (*row->refused || !bandwidth || bandwidth->value <= 0)
      continue;
    fprintf(out, "%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT ",%.6g,%.6g\r\n", bytes, count_of(row, "batch", 1),
            (double)bytes * (double)initiators / bandwidth->value / 1e3, bandwidth->value);
  }
  return 0;
}

int slurm_report_tables(const struct slurm_report *report) {
  int err = 0;
  for (size_t i = 0; !err && i < report->record->num_runs; i++) {
    const struct slurm_reported *one = &report->runs[i];
    struct text path = {0};
    if (!one->has_figures || strcmp(one->figures.kind, "transfer") != 0)
      continue;
    text_add(&path, "%s/%s/nixlbench.csv", report->record->directory, one->run->directory);
    err = path.failed ? fail(WEFT_ERR_NOMEM, "no memory for a path")
                      : whole_file_save(path.data, write_table, &one->figures);
    text_free(&path);
  }
  return err;
}
