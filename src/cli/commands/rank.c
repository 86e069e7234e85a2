// weft rank: the process of one rank. An agent starts it; people do not.
#include "cli/command.h"
#include "run/common/config.h"

static int run(const struct cli_command *command, int argc, char **argv) {
  (void)command;
  return run_rank_main(argc, argv);
}

const struct cli_command cli_rank = {
    .name = "rank",
    .summary = "the process of one rank",
    .description = "Started by the agent of 'weft elastic', which tells it what it needs.",
    .hidden = true,
    .run = run,
};
