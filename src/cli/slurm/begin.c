// The common beginning of the commands that work on a submitted batch.
#include "cli/slurm/slurm.h"

bool cli_slurm_begin(const struct cli_call *call, void *options, const char *const *directory,
                     struct slurm_record *record, int *status) {
  if (!cli_command_options(call, options, status))
    return false;
  int err = slurm_record_load(record, *directory);
  if (err)
    *status = cli_command_failed(call, err);
  return err == 0;
}
