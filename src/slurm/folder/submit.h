// Submits the jobs of a batch.
#ifndef SLURM_FOLDER_SUBMIT_H
#define SLURM_FOLDER_SUBMIT_H

#include "slurm/folder/record.h"

// Called for each job after it was submitted. `again`: it had been submitted before.
typedef void slurm_submitted_fn(void *arg, const struct slurm_job_record *job, bool again);

// Submits the jobs that have not been submitted yet, in order. Jobs of an earlier call are not submitted again. That
// also holds if the earlier process ended after sbatch and before it recorded the number: the job is then found in the
// queue by its name. An error names the job; the jobs before it are submitted.
int slurm_submit(struct slurm_record *record, slurm_submitted_fn *submitted, void *arg);

// Asks sbatch whether each job could run as it is (sbatch --test-only), and submits nothing.
int slurm_submit_test(const struct slurm_record *record);

// Cancels the jobs that have not ended. `*count`: their number. If one cannot be cancelled, the others still are, and
// the error names it.
int slurm_batch_cancel(const struct slurm_record *record, size_t *count);

#endif
