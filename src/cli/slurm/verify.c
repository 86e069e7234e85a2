// weft slurm verify: reports every fault of the files.
#include <stdio.h>

#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/slurm/options.h"

static const struct cli_option rows[] = {CLI_SLURM_OPTION_ROWS};

static const struct cli_example examples[] = {
    {"weft slurm verify test.toml scenario.toml system.toml", "prints all faults, each with its place"},
    {"weft slurm verify --tests-dir tests --test-scenario scenario.toml",
     "checks a scenario that names tests of a folder"},
    {NULL, NULL},
};

static int run(const struct cli_call *call) {
  struct cli_slurm_options options = {0};
  struct slurm_batch *batch = NULL;
  int status = 0;
  if (!cli_command_options(call, &options, &status) || !cli_slurm_read(call, &options, &batch, &status))
    return status;
  size_t tests = slurm_batch_tests(batch);
  printf("%zu test%s, %zu run%s\n", tests, text_s(tests), batch->num_runs, text_s(batch->num_runs));
  cli_slurm_print_memory(batch, "");
  slurm_batch_free(batch);
  return 0;
}

// CloudAI's name of the command.
const struct cli_command cli_slurm_verify_configs = {
    .name = "slurm verify-configs",
    .summary = "check tests and scenarios of CloudAI, and print every fault",
    .description = "The same as 'weft slurm verify', by the name that CloudAI gives it.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .hidden = true,
    .run = run,
};

const struct cli_command cli_slurm_verify = {
    .name = "slurm verify",
    .summary = "check tests and scenarios of CloudAI, and print every fault",
    .description =
        "Reads TOML files of tests, scenarios and systems as CloudAI has them, and checks them as a whole: keys, "
        "types, ranges, the options of the programs, plans against nodes and processes, ids and dependencies. Each "
        "fault is printed on one line, with FILE:LINE:COLUMN and what would be right. Nothing is submitted, and Slurm "
        "need not be installed.\n"
        "A list in cmd_args, extra_env_vars or num_nodes is a grid: a run for each combination.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
