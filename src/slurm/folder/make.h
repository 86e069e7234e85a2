// Makes the directory of a batch: for each run its plan, script, environment and description, and batch.json.
#ifndef SLURM_FOLDER_MAKE_H
#define SLURM_FOLDER_MAKE_H

#include "slurm/run_spec.h"

// If the same batch was made before, it stays unchanged. BUSY: the directory has another batch, or one with other
// plans, sizes or resources; SYSTEM: it cannot be written; UNSUPPORTED: see slurm_planned_jobs_make().
int slurm_folder_make(const struct slurm_batch *batch);

#endif
