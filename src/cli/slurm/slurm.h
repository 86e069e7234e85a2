// Shared parts of the commands of `weft slurm` that watch or cancel a batch.
#ifndef CLI_SLURM_SLURM_H
#define CLI_SLURM_SLURM_H

#include "cli/command/command.h"
#include "slurm/folder/record.h"

// Reads a command's options, and the record of the batch in *directory, which is one of these options. False: the
// command ends with *status.
bool cli_slurm_begin(const struct cli_call *call, void *options, const char *const *directory,
                     struct slurm_record *record, int *status);

// Shows the phases of a batch until all its runs have ended. Returns the exit status: 0 if all have passed, 1 if not,
// 128 + the number of the signal that ended it.
int cli_slurm_follow(const struct cli_call *call, const struct slurm_record *record);

#endif
