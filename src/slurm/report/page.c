// Makes the page of a batch: one document, which assets/batch.js shows.
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "slurm/report/report.h"

// The state of a phase is the worst state of its ranks; planned deaths and departures do not count.
static const char *phase_state(const struct results_phase *phase) {
  static const struct {
    enum results_state state;
    const char *name;
  } worst_first[] = {
      {RESULTS_FAILED, "failed"}, {RESULTS_INTERRUPTED, "interrupted"}, {RESULTS_UNREACHED, "unreached"}};
  for (size_t i = 0; i < sizeof worst_first / sizeof *worst_first; i++)
    for (uint32_t r = 0; r < phase->num_ranks; r++)
      if (phase->ranks[r].state == worst_first[i].state)
        return worst_first[i].name;
  return "passed";
}

static json_t *phases_of(const struct slurm_reported *one) {
  json_t *list = json_array();
  for (uint32_t p = 0; one->has_results && p < one->results.num_phases; p++)
    json_array_append_new(list, json_string(phase_state(&one->results.phases[p])));
  return list;
}

static json_t *link_of(const struct slurm_reported *one) {
  struct text link = {0};
  if (!one->has_results && !one->has_figures)
    return json_null();
  text_add(&link, "%s/" SLURM_REPORT_PAGE, one->run->directory);
  json_t *json = link.failed ? NULL : json_string(link.data);
  text_free(&link);
  return json;
}

static json_t *run_of(const struct slurm_report *report, const struct slurm_reported *one) {
  struct text action = {0};
  slurm_report_action(&action, one->run->action);
  json_t *json = json_pack(
      "{s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "id", one->run->id, "test", one->run->test,
      "step", (int)one->run->step, "iteration", (int)one->run->iteration, "action", action.data ? action.data : "",
      "state", slurm_progress_name(one->state->progress), "why", one->state->reason, "nodes", one->state->nodes, "job",
      (json_int_t)report->record->jobs[one->run->job].id, "default",
      one->metric > 0 ? json_real(one->metric) : json_null(), "phases", phases_of(one), "page", link_of(one));
  text_free(&action);
  return json;
}

static json_t *grid_of(const char *test, const struct slurm_lead *lead, const char *words) {
  struct text action = {0}, best = {0};
  slurm_report_action(&action, lead->best->run->action);
  text_add(&best, "step %u (%s), default %.2f GB/s", lead->best->run->step, action.data ? action.data : "",
           lead->best->metric);
  json_t *json = json_pack("{s:s, s:s, s:s}", "test", test, "best", best.data ? best.data : "", "against_next", words);
  text_free(&action);
  text_free(&best);
  return json;
}

// The best step of each grid, in words.
static int add_grids(json_t *grids, const struct slurm_report *report) {
  struct slurm_step *list = calloc(report->record->num_runs, sizeof *list);
  int err = list ? 0 : fail(WEFT_ERR_NOMEM, "no memory for steps");
  for (size_t i = 0; !err && i < report->record->num_runs; i++) {
    const char *test = report->record->runs[i].test;
    size_t count = slurm_report_first(report, i) ? slurm_report_steps(report, test, list) : 0;
    struct slurm_lead lead = {0};
    struct text words = {0};
    if (count > 1)
      err = slurm_report_lead(&lead, report, list, count);
    if (lead.next)
      slurm_report_lead_words(&words, &lead);
    if (lead.best)
      json_array_append_new(grids, grid_of(test, &lead, words.data ? words.data : ""));
    text_free(&words);
  }
  free(list);
  return err;
}

int slurm_report_page(const char *path, const struct slurm_report *report) {
  json_t *runs = json_array(), *grids = json_array();
  char *directory = strdup(report->record->directory);
  size_t passed = 0;
  if (directory)
    printable_line(directory); // JSON accepts only UTF-8
  for (size_t i = 0; i < report->record->num_runs; i++) {
    passed += report->runs[i].state->progress == SLURM_PASSED;
    json_array_append_new(runs, run_of(report, &report->runs[i]));
  }
  int err = add_grids(grids, report);
  json_t *document =
      json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "page", "batch", "name", report->record->name, "directory",
                directory ? directory : "", "passed", (json_int_t)passed, "grids", grids, "runs", runs);
  free(directory);
  if (err) {
    json_decref(document);
    return err;
  }
  return page_save_batch(path, report->record->name, document);
}
