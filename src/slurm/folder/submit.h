// Submits the jobs of a batch.
#ifndef SLURM_FOLDER_SUBMIT_H
#define SLURM_FOLDER_SUBMIT_H

#include "slurm/folder/record.h"

// Called for each job: submitted now, or before (`again`).
typedef void slurm_submitted_fn(void *arg, const struct slurm_job_record *job, bool again);

// Submits what has not been yet, in order. What an earlier call submitted stays as it is, also where that was ended
// between sbatch and its note: the job is then found in the queue by its name. An error names the job; those before it
// are submitted.
int slurm_submit(struct slurm_record *record, slurm_submitted_fn *told, void *arg);

// Asks sbatch whether each job could run as it is (sbatch --test-only), and submits nothing.
int slurm_submit_test(const struct slurm_record *record);

// Cancels the jobs that have not ended. `*count`: how many. Where one cannot be cancelled, the others are, and the
// error names it.
int slurm_batch_cancel(const struct slurm_record *record, size_t *count);

#endif
