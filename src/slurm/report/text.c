// The report of a batch for people: a table of its runs, and one for each run with its ranks.
#include <stdlib.h>

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "measure/report.h"
#include "slurm/report/report.h"

struct progress_look {
  const char *unicode, *ascii, *label;
  enum table_style style;
};

static const struct progress_look looks[SLURM_NUM_PROGRESS] = {
    [SLURM_NOT_SUBMITTED] = {"·", ".", "not submitted", TABLE_DIM},
    [SLURM_WAITS] = {"○", "o", "waits", TABLE_CYAN},
    [SLURM_RUNS] = {"▸", ">", "runs", TABLE_CYAN},
    [SLURM_PASSED] = {"✓", "+", "passed", TABLE_GREEN},
    [SLURM_FAILED] = {"✗", "!", "FAILED", TABLE_RED},
    [SLURM_CANCELLED] = {"◐", "~", "cancelled", TABLE_YELLOW},
    [SLURM_LOST] = {"?", "?", "lost", TABLE_RED},
};

static const struct table_column run_columns[] = {
    {.heading = "run"},
    {.heading = "action", .wrap = true, .spare = 1},
    {.heading = "job", .right = true},
    {.heading = "nodes", .spare = 3},
    {.heading = "state"},
    {.heading = "phase", .right = true},
    {.heading = "default GB/s", .right = true},
    {.heading = "why", .wrap = true},
};

static void add_run(struct table *table, const struct slurm_report *report, const struct slurm_reported *one,
                    bool unicode) {
  const struct progress_look *look = &looks[one->state->progress];
  uint32_t job = report->record->jobs[one->run->job].id;
  struct text action = {0};
  slurm_report_action(&action, one->run->action);
  table_row(table);
  table_add(table, TABLE_PLAIN, "%s", one->run->id);
  table_add(table, TABLE_DIM, "%s", action.data ? action.data : "");
  if (job == 0)
    table_add(table, TABLE_PLAIN, "%s", "");
  else if (one->run->task < 0)
    table_add(table, TABLE_PLAIN, "%u", job);
  else
    table_add(table, TABLE_PLAIN, "%u_%d", job, one->run->task);
  table_add(table, TABLE_PLAIN, "%s", one->state->nodes);
  table_add(table, look->style, "%s %s", unicode ? look->unicode : look->ascii, look->label);
  if (one->state->phase < 0)
    table_add(table, TABLE_PLAIN, "%s", "");
  else
    table_add(table, TABLE_PLAIN, "%d of %u", one->state->phase + 1, one->run->phases);
  if (one->metric > 0)
    table_add(table, TABLE_BOLD, "%.2f", one->metric);
  else
    table_add(table, TABLE_PLAIN, "%s", "");
  table_add(table, TABLE_PLAIN, "%s", one->state->reason);
  text_free(&action);
}

static int print(FILE *out, struct table *table, const struct report_options *look) {
  struct table_look as = {.color = look->color, .unicode = look->unicode, .width = report_width(look)};
  bool failed = table->failed;
  if (!failed)
    table_print(out, table, &as);
  table_free(table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}

int slurm_report_runs(FILE *out, const struct slurm_report *report, const struct report_options *look) {
  struct table table = {.columns = run_columns, .num_columns = sizeof run_columns / sizeof *run_columns};
  for (size_t i = 0; i < report->record->num_runs; i++)
    add_run(&table, report, &report->runs[i], look->unicode);
  return print(out, &table, look);
}

// --- the ranks of a run ---

enum { RANK_COLUMNS = 9 };
static const struct table_column rank_columns[RANK_COLUMNS] = {
    {.heading = "node"},
    {.heading = "rank", .right = true},
    {.heading = "phases"},
    {.heading = "GB/s", .right = true},
    {.heading = "avg", .group = "both, us", .right = true},
    {.heading = "min", .group = "both, us", .right = true, .spare = 1},
    {.heading = "p99", .group = "both, us", .right = true, .spare = 2},
    {.heading = "max", .group = "both, us", .right = true},
    {.heading = "why", .wrap = true},
};

// A cell has one colour: the colour of the worst of the rank's phases.
static enum table_style worst_style(const struct results *results, size_t rank) {
  enum table_style style = TABLE_DIM;
  for (uint32_t p = 0; p < results->num_phases; p++) {
    enum results_state state = results->phases[p].ranks[rank].state;
    if (state == RESULTS_FAILED)
      return TABLE_RED;
    if (state == RESULTS_INTERRUPTED || state == RESULTS_UNREACHED)
      style = TABLE_YELLOW;
    else if (state == RESULTS_PASSED && style == TABLE_DIM)
      style = TABLE_GREEN;
  }
  return style;
}

static void add_rank(struct table *table, const struct results *results, size_t rank, bool unicode) {
  const struct results_rank *last = slurm_report_last(results, rank), *named = NULL;
  struct text phases = {0};
  const char *why = "";
  for (uint32_t p = 0; p < results->num_phases; p++) {
    const struct results_rank *in = &results->phases[p].ranks[rank];
    text_add(&phases, "%s", unicode ? report_states[in->state].unicode : report_states[in->state].ascii);
    named = in->host[0] ? in : named;
    why = in->reason[0] ? in->reason : why;
  }
  table_row(table);
  table_add(table, TABLE_PLAIN, "%s", named ? named->host : "");
  table_add(table, TABLE_PLAIN, "%d", results->phases[0].ranks[rank].rank);
  table_add(table, worst_style(results, rank), "%s", phases.data ? phases.data : "");
  if (last && last->both.count > 0) {
    table_add(table, TABLE_PLAIN, "%.2f", results_rank_gbps(last));
    const double times[] = {last->both.avg, last->both.min, last->both.p99, last->both.max};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
      table_add(table, TABLE_PLAIN, "%.1f", times[i]);
  } else {
    for (int i = 0; i < 5; i++)
      table_add(table, TABLE_PLAIN, "%s", "");
  }
  table_add(table, TABLE_RED, "%s", why);
  text_free(&phases);
}

static int print_ranks(FILE *out, const struct slurm_reported *one, const struct report_options *look) {
  struct table table = {.columns = rank_columns, .num_columns = RANK_COLUMNS};
  if (!one->has_results || one->results.num_phases == 0)
    return 0;
  fprintf(out, "\n%s: a symbol for each phase; figures of the last phase that the rank passed\n", one->run->id);
  for (uint32_t i = 0; i < one->results.phases[0].num_ranks; i++)
    add_rank(&table, &one->results, i, look->unicode);
  return print(out, &table, look);
}

// --- grids ---

static void print_best(FILE *out, const char *test, const struct slurm_lead *lead, size_t count) {
  const struct slurm_step *best = lead->best;
  struct text action = {0};
  if (!best) {
    fprintf(out, "\n%s: no step of %zu has passed yet\n", test, count);
    return;
  }
  slurm_report_action(&action, best->run->action);
  fprintf(out, "\n%s: best of %zu steps is step %u (%s), default %.2f GB/s", test, count, best->run->step,
          action.data ? action.data : "", best->metric);
  if (best->run->reward == SLURM_REWARD_INVERSE || best->run->reward == SLURM_REWARD_NEGATIVE)
    fprintf(out, "; the test's agent_reward_function is %s, so the smallest counts as best",
            slurm_reward_names[best->run->reward]);
  fputc('\n', out);
  text_free(&action);
  if (lead->next) {
    slurm_report_lead_words(&action, lead);
    fprintf(out, "  %s\n", action.data ? action.data : "");
    text_free(&action);
  }
}

static int print_grids(FILE *out, const struct slurm_report *report) {
  struct slurm_step *list = calloc(report->record->num_runs, sizeof *list);
  int err = list ? 0 : fail(WEFT_ERR_NOMEM, "no memory for steps");
  for (size_t i = 0; !err && i < report->record->num_runs; i++) {
    const char *test = report->record->runs[i].test;
    size_t count = slurm_report_first(report, i) ? slurm_report_steps(report, test, list) : 0;
    struct slurm_lead lead;
    if (count > 1 && (err = slurm_report_lead(&lead, report, list, count)) == 0)
      print_best(out, test, &lead, count);
  }
  free(list);
  return err;
}

int slurm_report_text(FILE *out, const struct slurm_report *report, const struct report_options *look) {
  size_t passed = 0, count = report->record->num_runs;
  fprintf(out, "%s: %zu run%s in %s\n\n", report->record->name, count, text_s(count), report->record->directory);
  int err = slurm_report_runs(out, report, look);
  for (size_t i = 0; !err && i < count; i++) {
    passed += report->runs[i].state->progress == SLURM_PASSED;
    err = print_ranks(out, &report->runs[i], look);
  }
  if (!err)
    err = print_grids(out, report);
  if (!err)
    fprintf(out, "\n%zu of %zu runs passed%s\n", passed, count,
            report->silent ? "; Slurm does not answer, so this state comes from the files" : "");
  return err;
}
