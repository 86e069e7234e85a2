// weft slurm run: makes the directory of a batch, and submits its jobs.
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/slurm/options.h"
#include "cli/slurm/slurm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "slurm/folder/make.h"
#include "slurm/folder/submit.h"

struct options {
  struct cli_slurm_options batch; // first, since the shared rows need this
  bool follow, test_only;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  CLI_SLURM_OPTION_ROWS,
  {.section = "Submission", .name = "follow", .type = OPTION_FLAG, FIELD(follow),
   .help = "show the phases as they pass, until all runs have ended; the jobs also run without this command and its "
   "terminal"},
  {.name = "test-only", .type = OPTION_FLAG, FIELD(test_only),
   .help = "make the directory, ask Slurm whether the jobs could run here, and submit nothing"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft slurm run --plan plans/expansion_fault_rejoin.json --nodes 2 --processes-per-node 4 --follow",
     "a plan on two nodes; its phases are shown as they pass"},
    {"weft slurm run test.toml scenario.toml system.toml", "all tests of a scenario, with one job for each run"},
    {"weft slurm run weft-slurm/DIR --follow", "an existing batch: submits the jobs that are not submitted yet"},
    {NULL, NULL},
};

static void print_job(void *arg, const struct slurm_job_record *job, bool again) {
  (void)arg;
  printf("job %u: %s%s\n", job->id, job->name, again ? " (submitted before)" : "");
  fflush(stdout);
}

static bool is_batch(const struct cli_words *files) {
  struct text path = {0};
  if (files->count != 1)
    return false;
  text_add(&path, "%s/" SLURM_FILE_BATCH, files->list[0]);
  bool is = path.data && access(path.data, F_OK) == 0;
  text_free(&path);
  return is;
}

// Opens the directory that the single operand names, or makes a new one from files and options. False: the command ends
// with `*status`.
static bool open_record(const struct cli_call *call, struct options *options, struct slurm_record *record,
                        int *status) {
  struct slurm_batch *batch = NULL;
  int err = 0;
  if (is_batch(&options->batch.files)) {
    err = slurm_record_load(record, options->batch.files.list[0]);
  } else {
    if (!cli_slurm_read(call, &options->batch, &batch, status))
      return false;
    err = slurm_folder_make(batch);
    if (!err)
      err = slurm_record_load(record, batch->directory);
    slurm_batch_free(batch);
  }
  if (err)
    *status = cli_command_failed(call, err);
  return !err;
}

static int submit(const struct cli_call *call, struct slurm_record *record, const struct options *options) {
  int err = options->test_only ? slurm_submit_test(record) : slurm_submit(record, print_job, NULL);
  if (err)
    return cli_command_failed(call, err);
  if (options->test_only) {
    printf("%zu job%s could run here; nothing was submitted\n", record->num_jobs, text_s(record->num_jobs));
    return 0;
  }
  printf("'weft slurm status %s --follow' shows them, 'weft slurm report %s' has the results\n", record->directory,
         record->directory);
  fflush(stdout);
  return options->follow ? cli_slurm_follow(call, record) : 0;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct slurm_record record;
  int status = 0;
  if (!cli_command_options(call, &options, &status) || !open_record(call, &options, &record, &status))
    return status;
  status = submit(call, &record, &options);
  slurm_record_free(&record);
  return status;
}

const struct cli_command cli_slurm_run = {
    .name = "slurm run",
    .summary = "run tests of CloudAI, or a plan, as jobs of Slurm",
    .description =
        "Makes a directory with the plan, the script and the environment of each run, and submits the jobs by sbatch. "
        "The same command again, or with that directory, continues after an interruption: submitted jobs stay as they "
        "are, and nothing is done twice. 'weft slurm dry-run' prints the scripts without submitting anything.\n"
        "Exit status 0 means that all jobs were submitted; with --follow it means that all runs passed.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
