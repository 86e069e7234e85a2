// The texts of a run's directory, and the jobs of a batch with their scripts.
#ifndef SLURM_SCRIPT_SCRIPT_H
#define SLURM_SCRIPT_SCRIPT_H

#include "base/text/text.h"
#include "slurm/run_spec.h"

// Writes script.sbatch, which is a job of its own; a job with several runs also starts it for each run. text->failed:
// memory ran out.
void slurm_script_write(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run);

// Write env.sh and run.toml.
void slurm_script_write_env(struct text *text, const struct slurm_run *run);
void slurm_script_write_toml(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run);

// Write a job for the runs `first` to first + count - 1: an array with a task for each, or a job that runs them one
// after the other.
void slurm_script_write_array(struct text *text, const struct slurm_batch *batch, size_t first, size_t count);
void slurm_script_write_sequence(struct text *text, const struct slurm_batch *batch, size_t first, size_t count);

struct slurm_need {
  enum slurm_dependency_type type;
  bool only_if_passed;
  size_t job; // index of an earlier one
};

// A job to be submitted.
struct slurm_planned_job {
  char *name;         // identifies the job in the queue; unique in the batch
  char *script;       // its path, relative to the batch's directory
  char *text;         // of the script
  char *array;        // "0-7"; NULL: it is not an array
  size_t first, runs; // which of the batch's runs it has
  struct slurm_need *needs;
  size_t num_needs;
};

struct slurm_planned_jobs {
  struct slurm_planned_job *list;
  size_t count;
};

// Makes the jobs of the batch in the order of their submission. UNSUPPORTED: one job for all runs, and tests that start
// or end together with others.
int slurm_planned_jobs_make(struct slurm_planned_jobs *jobs, const struct slurm_batch *batch);
void slurm_planned_jobs_free(struct slurm_planned_jobs *jobs);

#endif
