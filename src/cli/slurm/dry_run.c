// weft slurm dry-run: prints the jobs that would be submitted.
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/slurm/options.h"
#include "slurm/script/script.h"

static const struct cli_option rows[] = {CLI_SLURM_OPTION_ROWS};

static const struct cli_example examples[] = {
    {"weft slurm dry-run test.toml scenario.toml system.toml", "the scripts of all jobs, and their order"},
    {"weft slurm dry-run --plan plans/expansion_fault_rejoin.json --nodes 2 --processes-per-node 4",
     "a plan on two nodes, without other files"},
    {NULL, NULL},
};

static void print_needs(const struct slurm_planned_job *job, size_t number) {
  static const char *const words[] = {
      [SLURM_START_POST_COMP] = "afterany", [SLURM_END_POST_COMP] = NULL, [SLURM_START_POST_INIT] = "after"};
  const char *before = " --dependency=";
  for (size_t i = 0; i < job->num_needs; i++) {
    const struct slurm_need *need = &job->needs[i];
    if (need->type == SLURM_END_POST_COMP)
      continue;
    printf("%s%s:JOB%zu", before,
           need->only_if_passed && need->type == SLURM_START_POST_COMP ? "afterok" : words[need->type], need->job + 1);
    before = ",";
  }
  for (size_t i = 0; i < job->num_needs; i++)
    if (job->needs[i].type == SLURM_END_POST_COMP)
      printf("\n#      JOB%zu is cancelled when JOB%zu ends", number, job->needs[i].job + 1);
}

static void print_order(const struct slurm_batch *batch, const struct slurm_planned_jobs *jobs) {
  printf("# %zu job%s would be submitted, in this order. Folder: %s\n", jobs->count, text_s(jobs->count),
         batch->directory);
  for (size_t i = 0; i < jobs->count; i++) {
    printf("# JOB%zu: sbatch %s", i + 1, jobs->list[i].script);
    print_needs(&jobs->list[i], i + 1);
    putchar('\n');
  }
  cli_slurm_print_memory(batch, "# ");
}

static void print_file(const char *path, const char *text) {
  printf("\n# ---- %s\n%s", path, text);
}

// Prints the runs of an array or a sequence: what each task starts.
static int print_runs(const struct slurm_batch *batch, const struct slurm_planned_job *job) {
  for (size_t i = job->first; i < job->first + job->runs; i++) {
    const struct slurm_run *run = &batch->runs[i];
    struct text text = {0}, path = {0};
    slurm_script_write(&text, batch, run);
    text_add(&path, "%s/" SLURM_FILE_SCRIPT, run->directory + strlen(batch->directory) + 1);
    if (text.data && path.data)
      print_file(path.data, text.data);
    text_free(&text);
    text_free(&path);
  }
  return 0;
}

static int run(const struct cli_call *call) {
  struct cli_slurm_options options = {0};
  struct slurm_planned_jobs jobs = {0};
  struct slurm_batch *batch = NULL;
  int status = 0;
  if (!cli_command_options(call, &options, &status) || !cli_slurm_read(call, &options, &batch, &status))
    return status;
  int err = slurm_planned_jobs_make(&jobs, batch);
  if (!err)
    print_order(batch, &jobs);
  for (size_t i = 0; i < jobs.count; i++) {
    print_file(jobs.list[i].script, jobs.list[i].text);
    if (batch->submission == SLURM_ONE_JOB || jobs.list[i].array)
      print_runs(batch, &jobs.list[i]);
  }
  slurm_planned_jobs_free(&jobs);
  slurm_batch_free(batch);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_slurm_dry_run = {
    .name = "slurm dry-run",
    .summary = "print the scripts that 'weft slurm run' would submit",
    .description = "Prints each job's script for sbatch, and in which order and with which dependencies the jobs would "
                   "be submitted. Nothing is written, and Slurm need not be installed.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
