// weft plan: checks a plan and shows the changes in each phase.
#include "plan/plan.h"

#include <unistd.h>

#include "base/ep_limits.h"
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"

struct options {
  const char *file;
  uint32_t num_processes;
  bool json;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const struct cli_option rows[] = {
    {.name = "plan",
     .letter = 'p',
     .operand = true,
     .required = true,
     .type = OPTION_PATH,
     .metavar = "PLAN",
     FIELD(file),
     .help = "file of the plan"},
    {.name = "num-processes",
     .letter = 'n',
     .type = OPTION_UINT,
     .metavar = "N",
     .min = 1,
     .max = EP_MAX_CAPACITY,
     .preset_note = "not checked",
     FIELD(num_processes),
     .help = "process slots: a plan that has more ranks live at once is an error"},
    {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON"},
};

static const struct cli_example examples[] = {
    {"weft plan plans/expansion_fault_rejoin.json", "what each phase adds, removes, kills and needs"},
    {"weft plan PLAN --num-processes 8", "also checks whether 8 process slots are enough"},
    {"weft plan PLAN --json", "the same for a program"},
    {NULL, NULL},
};

static int describe(const struct options *options) {
  struct plan *plan = NULL;
  int err = plan_load(&plan, options->file);
  if (err)
    return err;
  if (options->num_processes > 0) {
    err = plan_check_slots(plan, options->num_processes);
    if (err)
      fail_context(err, "plan %s", options->file);
  }
  if (!err)
    err = plan_describe(stdout, plan, options->json, cli_terminal_of(STDOUT_FILENO, TERMINAL_NEVER).width);
  plan_free(plan);
  return err;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  int err = describe(&options);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_plan = {
    .name = "plan",
    .summary = "check a plan and show what each phase does",
    .description =
        "A plan is a JSON list of phases; each phase is a non-empty list of integers. A listed rank R is active in the "
        "phase; if it was not active before, it joins. A rank that was active and is not listed leaves cleanly when "
        "the phase starts. -R means that rank R is lost abruptly, in the middle of the phase's first dispatch (rank 0 "
        "cannot be lost). A rank that reappears joins again, as a new process. If no rank of the previous phase stays, "
        "one of them waits until the joining ranks are active, and keeps its process slot until then.\n"
        "Example: [[0, 1], [0, 1, 2, 3], [0, 1, 2, -3]] starts with two ranks, adds two and kills one of them.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
