// weft slurm await: a job's script uses it to wait for the phase before the one that first needs a node.
#include "cli/commands/commands.h"
#include "slurm/wait/phase.h"

struct options {
  const char *run_dir;
  uint32_t phase, process, timeout_s;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "run-dir", .type = OPTION_PATH, .metavar = "DIR", .required = true, FIELD(run_dir),
   .help = "run directory of the lead agent; it need not exist yet"},
  {.name = "phase", .type = OPTION_UINT, .metavar = "N", .max = 4096, FIELD(phase),
   .help = "phase to wait for, counted from 0"},
  {.name = "process", .type = OPTION_UINT, .metavar = "PID", .preset_note = "none", FIELD(process),
   .help = "process of the lead's step: when it ends, the wait ends"},
  {.name = "timeout", .type = OPTION_UINT, .metavar = "N", .min = 1, .unit = "s", .preset = "86400", FIELD(timeout_s),
   .help = "longest wait"},
};
// clang-format on

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  int err = slurm_wait_phase(options.run_dir, options.phase, (pid_t)options.process, options.timeout_s);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_slurm_await = {
    .name = "slurm await",
    .summary = "wait until a phase of a run begins",
    .description = "The script of a job calls it if followers start late.",
    .options = OPTION_TABLE(rows),
    .hidden = true,
    .run = run,
};
