// What the commands of `weft slurm` share that watch or end a batch.
#ifndef CLI_SLURM_SLURM_H
#define CLI_SLURM_SLURM_H

#include "cli/command/command.h"
#include "slurm/folder/record.h"

// Reads a command's options, and the record of the batch whose directory they name: *directory is one of them. False:
// the command ends with *status.
bool cli_slurm_begin(const struct cli_call *call, void *options, const char *const *directory,
                     struct slurm_record *record, int *status);

// Shows the phases of a batch until all its runs have ended; returns the exit status: 0 when all have passed, 1 when
// not, 128 + the signal that ended it.
int cli_slurm_follow(const struct cli_call *call, const struct slurm_record *record);

#endif
