// weft slurm cancel: ends the jobs of a batch.
#include "cli/commands/commands.h"
#include "cli/slurm/slurm.h"

#include <stdio.h>

#include "slurm/folder/submit.h"

struct options {
  const char *directory;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const struct cli_option rows[] = {
    {.name = "directory",
     .operand = true,
     .required = true,
     .type = OPTION_PATH,
     .metavar = "DIR",
     FIELD(directory),
     .help = "directory of the batch, as 'weft slurm run' printed it"},
};

static const struct cli_example examples[] = {
    {"weft slurm cancel weft-slurm/DIR", "cancel all jobs of the batch that have not ended"},
    {NULL, NULL},
};

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct slurm_record record;
  size_t count = 0;
  int status = 0;
  if (!cli_slurm_begin(call, &options, &options.directory, &record, &status))
    return status;
  int err = slurm_batch_cancel(&record, &count);
  slurm_record_free(&record);
  if (err)
    return cli_command_failed(call, err);
  printf("%zu job%s cancelled; what was measured stays in %s\n", count, count == 1 ? "" : "s", options.directory);
  return 0;
}

const struct cli_command cli_slurm_cancel = {
    .name = "slurm cancel",
    .summary = "cancel the jobs of a batch",
    .description = "Cancels, by scancel, the jobs of a batch that have not ended. Runs that have ended stay as they "
                   "are, and 'weft slurm report' shows all of them.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
