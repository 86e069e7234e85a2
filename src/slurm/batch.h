// Makes a batch of runs from files and options.
#ifndef SLURM_BATCH_H
#define SLURM_BATCH_H

#include "slurm/core/faults.h"
#include "slurm/core/request.h"

// Reads all files and collects every fault in them. It returns an error only if memory runs out or the build has no
// TOML parser. Faults of files and options are added to `faults`; they point into `*batch`, so print them before you
// free it. The caller owns the batch. It refers to strings of the request, and may be used only if there are no errors.
int slurm_batch_make(struct slurm_batch **batch, const struct slurm_request *request, struct slurm_faults *faults);

// The number of tests in the batch.
size_t slurm_batch_tests(const struct slurm_batch *batch);

#endif
