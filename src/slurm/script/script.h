// The texts of a run's directory, and the jobs of a batch with their scripts.
#ifndef SLURM_SCRIPT_SCRIPT_H
#define SLURM_SCRIPT_SCRIPT_H

#include "base/text/text.h"
#include "slurm/run_spec.h"

// script.sbatch: a job of its own, and also what a job of several runs starts for each. text->failed: no memory.
void slurm_script_write(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run);

// env.sh and run.toml.
void slurm_script_write_env(struct text *text, const struct slurm_run *run);
void slurm_script_write_toml(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run);

// Runs `first` to first + count - 1 in one job: an array with a task for each, or all of them one after the other.
void slurm_script_write_array(struct text *text, const struct slurm_batch *batch, size_t first, size_t count);
void slurm_script_write_sequence(struct text *text, const struct slurm_batch *batch, size_t first, size_t count);

struct slurm_need {
  enum slurm_dependency_type type;
  bool only_if_passed;
  size_t job; // index of an earlier one
};

// A job to be submitted.
struct slurm_planned_job {
  char *name;         // by which it is found again in the queue; unique in the batch
  char *script;       // its path, relative to the batch's directory
  char *text;         // of the script
  char *array;        // "0-7"; NULL: it is none
  size_t first, runs; // which of the batch's runs it has
  struct slurm_need *needs;
  size_t num_needs;
};

struct slurm_planned_jobs {
  struct slurm_planned_job *list;
  size_t count;
};

// The jobs of the batch in the order of their submission. UNSUPPORTED: one job, and tests that end or begin with
// others.
int slurm_planned_jobs_make(struct slurm_planned_jobs *jobs, const struct slurm_batch *batch);
void slurm_planned_jobs_free(struct slurm_planned_jobs *jobs);

#endif
