// weft slurm report: reports the measurements of the runs of a batch.
#include "slurm/report/report.h"
#include "base/fail.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "cli/slurm/slurm.h"
#include "page/page.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

struct options {
  const char *directory;
  struct cli_slurm_report_options report;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

const char *const cli_slurm_report_formats[] = {
    [REPORT_TEXT] = "text", [REPORT_JSON] = "json", [REPORT_CSV] = "csv", NULL};

// clang-format off
static const struct cli_option rows[] = {
  {.name = "directory", .operand = true, .required = true, .type = OPTION_PATH, .metavar = "DIR", FIELD(directory),
   .help = "directory of the batch, as 'weft slurm run' printed it"},
  CLI_SLURM_REPORT_ROWS(struct options, report),
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft slurm report weft-slurm/DIR", "all runs, the ranks of each, and the best step of each grid"},
    {"weft slurm report weft-slurm/DIR --format csv > ranks.csv", "one row for each run and rank"},
    {NULL, NULL},
};

static int save_page(const char *path, const struct slurm_reported *one) {
  const struct figures *figures = &one->figures;
  const char *label = one->run->id;
  return one->has_results ? page_save_run(path, &one->results) : page_save_figures(path, &figures, &label, 1);
}

static int write_batch_page(const struct slurm_report *report) {
  struct text path = {0};
  text_add(&path, "%s/" SLURM_REPORT_PAGE, report->record->directory);
  int err = path.failed ? fail(WEFT_ERR_NOMEM, "no memory for a path") : slurm_report_page(path.data, report);
  text_free(&path);
  return err;
}

static int write_pages(const struct slurm_report *report) {
  int err = 0;
  for (size_t i = 0; !err && i < report->record->num_runs; i++) {
    const struct slurm_reported *one = &report->runs[i];
    struct text path = {0};
    if (!one->has_results && !one->has_figures)
      continue;
    text_add(&path, "%s/%s/" SLURM_REPORT_PAGE, report->record->directory, one->run->directory);
    err = path.failed ? fail(WEFT_ERR_NOMEM, "no memory for a path") : save_page(path.data, one);
    text_free(&path);
  }
  return err ? err : write_batch_page(report);
}

int cli_slurm_write_report(const struct slurm_record *record, const struct cli_slurm_report_options *options) {
  struct slurm_report report;
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->color);
  struct report_options look = {
      .format = options->format, .color = terminal.color, .unicode = terminal.unicode, .width = terminal.width};
  int err = slurm_report_open(&report, record);
  if (err)
    return err;
  err = slurm_report_write(stdout, &report, &look);
  if (!err)
    err = slurm_report_trajectories(&report);
  if (!err)
    err = slurm_report_tables(&report);
  if (!err && options->html)
    err = write_pages(&report);
  slurm_report_close(&report);
  return err;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct slurm_record record;
  int status = 0;
  if (!cli_slurm_begin(call, &options, &options.directory, &record, &status))
    return status;
  int err = cli_slurm_write_report(&record, &options.report);
  slurm_record_free(&record);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_slurm_report = {
    .name = "slurm report",
    .summary = "print the results of the runs of a batch",
    .description =
        "Reads the results that the runs of a batch wrote, and prints a report: the runs, the ranks of each run by "
        "node, and the best step of each grid of parameters. The figure 'default' is the mean bandwidth of dispatch "
        "and combine in the last phase that passed, or the highest bandwidth of a benchmark; larger is better. If "
        "there are several iterations, the report says whether the best step is better by more than noise. A grid also "
        "gets DIR/trajectory-TEST.csv, which is also DIR/TEST/trajectory.csv, and a run of a transfer benchmark "
        "nixlbench.csv in its directory.\n"
        "Exit status 0 means that the report could be made, even if runs failed.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
