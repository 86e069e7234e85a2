// weft rank: the process of one rank. An agent starts it; people do not.
#include "cli/commands/commands.h"
#include "run/common/config.h"

static int run(const struct cli_call *call) {
  return run_rank_main(call->argc, call->argv);
}

const struct cli_command cli_rank = {
    .name = "rank",
    .summary = "the process of one rank",
    .description = "The agent of 'weft elastic' starts this command and gives it what it needs.",
    .hidden = true,
    .run = run,
};
