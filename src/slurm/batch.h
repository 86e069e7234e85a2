// From files and options to a batch of runs.
#ifndef SLURM_BATCH_H
#define SLURM_BATCH_H

#include "slurm/core/faults.h"
#include "slurm/core/request.h"

// Reads all files, and tells every fault in them. An error is want of memory, or a build without a parser of TOML. What
// is wrong in files and options is in `faults` instead, whose places are in `*batch`: print them before that goes. The
// batch is the caller's, refers to strings of the request, and is only to be used where there are no errors.
int slurm_batch_make(struct slurm_batch **batch, const struct slurm_request *request, struct slurm_faults *faults);

// How many tests the batch has.
size_t slurm_batch_tests(const struct slurm_batch *batch);

#endif
