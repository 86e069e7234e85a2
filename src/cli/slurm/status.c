// weft slurm status: shows the states of the runs of a batch.
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "cli/slurm/slurm.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "slurm/report/report.h"

struct options {
  const char *directory;
  bool follow, json;
  enum cli_terminal_color color;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "directory", .operand = true, .required = true, .type = OPTION_PATH, .metavar = "DIR", FIELD(directory),
   .help = "directory of the batch, as 'weft slurm run' printed it"},
  {.name = "follow", .type = OPTION_FLAG, FIELD(follow),
   .help = "show the phases as they pass, until all runs have ended"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the text"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft slurm status weft-slurm/DIR", "one line for each run: waits, runs, passed or failed"},
    {"weft slurm status weft-slurm/DIR --follow", "shows the phases as they pass, also after the terminal was lost"},
    {NULL, NULL},
};

static int show(const struct slurm_record *record, const struct options *options) {
  struct slurm_report report;
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->color);
  struct report_options look = {.format = options->json ? REPORT_JSON : REPORT_TEXT,
                                .color = terminal.color,
                                .unicode = terminal.unicode,
                                .width = terminal.width};
  int err = slurm_report_open(&report, record);
  if (err)
    return err;
  if (report.silent)
    fputs("weft slurm status: Slurm does not answer, so this state comes from the files\n", stderr);
  err = options->json ? slurm_report_write(stdout, &report, &look) : slurm_report_runs(stdout, &report, &look);
  slurm_report_close(&report);
  return err;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct slurm_record record;
  int status = 0;
  if (!cli_slurm_begin(call, &options, &options.directory, &record, &status))
    return status;
  int err;
  if (options.follow)
    status = cli_slurm_follow(call, &record);
  else if ((err = show(&record, &options)) != 0)
    status = cli_command_failed(call, err);
  slurm_record_free(&record);
  return status;
}

const struct cli_command cli_slurm_status = {
    .name = "slurm status",
    .summary = "show the state of the runs of a batch",
    .description =
        "Asks Slurm for the jobs of a batch, and reads the results of their runs. With --follow the exit status is 0 "
        "if all runs passed and 1 if one did not; without it the status is 0 whenever the state is known.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
