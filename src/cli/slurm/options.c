// Reads the files and options of a batch.
#include "cli/slurm/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "bench/transfer/transfer.h"
#include "cli/bench/transfer.h"
#include "cli/commands/commands.h"

const char *const cli_slurm_containers[] = {"none", "pyxis", "apptainer", NULL};
const char *const cli_slurm_followers[] = {[SLURM_FOLLOWERS_EARLY] = "early", [SLURM_FOLLOWERS_LATE] = "late", NULL};

// Checks an option as the program itself would.
static int check_option(enum slurm_program program, const char *name, const char *value, const char **near) {
  struct cli_option_table table = cli_elastic.options;
  if (program == SLURM_TRANSFER)
    table = (struct cli_option_table)CLI_BENCH_TRANSFER_TABLE;
  const struct cli_option *row = cli_options_find(table, name, near);
  if (!row && !value && cli_options_find_cleared(table, name, strlen(name)))
    return 0;
  if (!row)
    return 1;
  if (row->type == OPTION_FLAG)
    return value ? fail(WEFT_ERR_INVALID, "a flag has the value \"%s\": want true or false", value) : 0;
  if (!value)
    return fail(WEFT_ERR_INVALID, "it is not a flag: want a value instead of true or false");
  if (*value == '\0' && cli_option_may_be_empty(table, name, strlen(name)))
    return 0;
  int err = cli_option_check(row, value);
  if (!err && program == SLURM_TRANSFER && strcmp(row->name, "backend") == 0)
    err = transfer_check_backends(value);
  return err;
}

static const char *own_path(char *path, size_t cap) {
  ssize_t size = readlink("/proc/self/exe", path, cap - 1);
  if (size <= 0)
    return NULL;
  path[size] = '\0';
  return path;
}

void cli_slurm_print_memory(const struct slurm_batch *batch, const char *before) {
  for (size_t i = 0; i < batch->num_runs; i++) {
    const char *memory = batch->runs[i].memory;
    size_t count = 0, earlier = 0;
    for (size_t j = 0; memory && j < batch->num_runs; j++)
      if (batch->runs[j].memory && strcmp(batch->runs[j].memory, memory) == 0) {
        count++;
        earlier += j < i;
      }
    if (count && !earlier)
      printf("%smemory of %zu run%s: %s\n", before, count, text_s(count), memory);
  }
}

bool cli_slurm_read(const struct cli_call *call, struct cli_slurm_options *options, struct slurm_batch **batch,
                    int *status) {
  static char own[4096];
  struct slurm_request *request = &options->request;
  struct slurm_faults faults = {0};
  request->files = options->files.list;
  request->num_files = options->files.count;
  request->container = options->container ? cli_slurm_containers[options->container - 1] : NULL;
  request->own = own_path(own, sizeof own);
  request->check_option = check_option;
  request->memory = getenv("WEFT_MEMORY");
  request->submission = options->single_sbatch ? SLURM_ONE_JOB : options->array ? SLURM_ARRAY : SLURM_JOB_EACH;
  if (options->single_sbatch && options->array) {
    *status = cli_command_failed(
        call, fail(WEFT_ERR_INVALID, "--single-sbatch and --array are given together: want one of them"));
    return false;
  }
  int err = slurm_batch_make(batch, request, &faults);
  if (!err) {
    slurm_faults_print(stderr, &faults);
    if (faults.errors) {
      err = fail(WEFT_ERR_INVALID, "%zu fault%s", faults.errors, text_s(faults.errors));
      slurm_batch_free(*batch);
    }
  }
  slurm_faults_free(&faults);
  if (err)
    *status = cli_command_failed(call, err);
  return !err;
}
