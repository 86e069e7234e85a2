// The verbs of CloudAI that have another name here, or no work to do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/slurm/options.h"
#include "cli/slurm/slurm.h"
#include "slurm/schema/keys.h"

// --- generate-report: the report of a batch that its files name ---

struct generate_options {
  struct cli_slurm_options batch; // first, since the shared rows need this
  const char *directory;
  struct cli_slurm_report_options report;
};

// clang-format off
static const struct cli_option report_rows[] = {
  CLI_SLURM_OPTION_ROWS,
  {.section = "Report", .name = "result-dir", .type = OPTION_PATH, .metavar = "DIR",
   .preset_note = "the folder of the scenario's batch", OPTION_FIELD(struct generate_options, directory),
   .help = "directory of the batch, as 'weft slurm run' printed it"},
  CLI_SLURM_REPORT_ROWS(struct generate_options, report),
};
// clang-format on

static int generate_report(const struct cli_call *call) {
  struct generate_options options = {0};
  struct slurm_record record;
  struct slurm_batch *batch = NULL;
  int status = 0;
  if (!cli_command_options(call, &options, &status) ||
      (!options.directory && !cli_slurm_read(call, &options.batch, &batch, &status)))
    return status;
  int err = slurm_record_load(&record, options.directory ? options.directory : batch->directory);
  if (!err) {
    err = cli_slurm_write_report(&record, &options.report);
    slurm_record_free(&record);
  }
  slurm_batch_free(batch);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_slurm_generate_report = {
    .name = "slurm generate-report",
    .summary = "print the results of the runs of a batch",
    .description =
        "The same as 'weft slurm report', by the name that CloudAI gives it. Without --result-dir, the files "
        "and options of 'weft slurm run' name the batch.",
    .options = OPTION_TABLE(report_rows),
    .hidden = true,
    .run = generate_report,
};

// --- list: what CloudAI has in its registry is here the words that a key may have ---

static const struct cli_option rows[] = {CLI_SLURM_OPTION_ROWS};

static void print_choices(const struct slurm_schema *schema) {
  for (size_t i = 0; i < schema->count; i++) {
    const struct slurm_key *key = &schema->keys[i];
    for (size_t c = 0; key->choices && key->choices[c]; c++)
      printf("%s%s%s", c ? ", " : key->name, c ? "" : ": ", key->choices[c]);
    if (key->choices)
      putchar('\n');
  }
}

static int list(const struct cli_call *call) {
  struct cli_slurm_options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  print_choices(&slurm_keys_test);
  print_choices(&slurm_keys_system);
  puts("'weft slurm status DIR' lists the runs of a batch");
  return 0;
}

const struct cli_command cli_slurm_list = {
    .name = "slurm list",
    .summary = "print the words that keys of tests and systems may have",
    .description = "CloudAI lists its registry. Weft has none: this prints the words that it knows for each key.",
    .options = OPTION_TABLE(rows),
    .hidden = true,
    .run = list,
};

// --- install, uninstall ---

static int do_nothing(const struct cli_call *call) {
  struct cli_slurm_options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  printf("there is nothing to %s: the nodes need only weft, at the same path (or --weft PATH)\n",
         strchr(call->command->name, ' ') + 1);
  return 0;
}

#define WITHOUT_WORK(verb)                                                                                             \
  {                                                                                                                    \
    .name = "slurm " verb, .summary = "nothing: there is nothing to " verb,                                            \
    .description =                                                                                                     \
        "CloudAI fetches images and repositories here. Weft needs none of them, so the files are not read.",           \
    .options = OPTION_TABLE(rows), .hidden = true, .run = do_nothing                                                   \
  }

const struct cli_command cli_slurm_install = WITHOUT_WORK("install");
const struct cli_command cli_slurm_uninstall = WITHOUT_WORK("uninstall");
