// Shared parts of the commands of `weft slurm` that watch or cancel a batch.
#ifndef CLI_SLURM_SLURM_H
#define CLI_SLURM_SLURM_H

#include "cli/command/command.h"
#include "cli/process/terminal.h"
#include "measure/report.h"
#include "slurm/folder/record.h"

// Reads a command's options, and the record of the batch in *directory, which is one of these options. False: the
// command ends with *status.
bool cli_slurm_begin(const struct cli_call *call, void *options, const char *const *directory,
                     struct slurm_record *record, int *status);

// Shows the phases of a batch until all its runs have ended. Returns the exit status: 0 if all have passed, 1 if not,
// 128 + the number of the signal that ended it.
int cli_slurm_follow(const struct cli_call *call, const struct slurm_record *record);

// How a report is printed, and whether it is also a page.
struct cli_slurm_report_options {
  enum report_format format;
  bool html;
  enum cli_terminal_color color;
};

// The rows of a table of options for the member `member` of a command's target.
extern const char *const cli_slurm_report_formats[]; // NULL at the end
// clang-format off
#define CLI_SLURM_REPORT_ROWS(target, member) \
  {.name = "format", .letter = 'f', .type = OPTION_ENUM, .metavar = "FORMAT", .choices = cli_slurm_report_formats, \
   .preset = "text", OPTION_FIELD(target, member.format), \
   .help = "tables for people, JSON with all results, or one CSV row for each run and rank"}, \
  {.name = "html", .type = OPTION_FLAG, OPTION_FIELD(target, member.html), \
   .help = "also write DIR/report.html, with all runs and their phases, and for each run that has results a page " \
   "with pictures, report.html in the run's directory"}, \
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto", \
   OPTION_FIELD(target, member.color), .help = "colours in the text"}
// clang-format on

// Prints the report of a batch, and writes its files.
int cli_slurm_write_report(const struct slurm_record *record, const struct cli_slurm_report_options *options);

#endif
