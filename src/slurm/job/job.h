// Submits, queries and cancels jobs of Slurm by its commands.
#ifndef SLURM_JOB_JOB_H
#define SLURM_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A name has the ids of a batch and of a run, of 100 characters each, and numbers.
enum { SLURM_JOB_NAME = 256, SLURM_JOB_DIRECTORY = 1024 };

struct slurm_submit {
  const char *script, *directory;
  const char *wrap;         // a command line instead of a script; NULL: none
  const char *name;         // of the job
  const char *dependencies; // in sbatch's form, "afterok:12"; NULL: none
  const char *array;        // "0-7"; NULL: none
  bool test_only;           // only checks whether it could run, and submits nothing
};

// `*id`: the job's number; 0 with test_only. SYSTEM: sbatch refused it, with its reason; TIMEOUT: no answer.
int slurm_job_submit(const struct slurm_submit *submit, uint32_t *id);

// Slurm's data of one job, or of one task of an array.
struct slurm_job {
  uint32_t id;
  int32_t task; // index in an array; negative: it is not in one
  char name[SLURM_JOB_NAME];
  char state[32];  // RUNNING, PENDING, COMPLETED, ...
  char reason[96]; // why it waits, or how it ended; "None"
  char nodes[128];
  char directory[SLURM_JOB_DIRECTORY]; // its working directory
};

struct slurm_jobs {
  struct slurm_job *list;
  size_t count;
};

// Reads all jobs of this user that Slurm still knows; it knows ended jobs for some minutes.
int slurm_jobs_read(struct slurm_jobs *jobs);
void slurm_jobs_free(struct slurm_jobs *jobs);
// The same from the text that squeue prints, one line for each job: ID|STATE|REASON|NODES|NAME|DIRECTORY. PROTOCOL: a
// line has another form.
int slurm_jobs_parse(struct slurm_jobs *jobs, const char *text);
// Finds a job. NULL: Slurm does not know it, or no longer knows it.
const struct slurm_job *slurm_jobs_find(const struct slurm_jobs *jobs, uint32_t id, int32_t task);
// Finds a job with a higher number than `after`.
const struct slurm_job *slurm_jobs_named(const struct slurm_jobs *jobs, const char *name, const char *directory,
                                         uint32_t after);

bool slurm_job_waits(const struct slurm_job *job); // PENDING and the like: it has no nodes yet
bool slurm_job_ended(const struct slurm_job *job);

// Cancels the whole job, or one task of its array.
int slurm_job_cancel(uint32_t id, int32_t task);

#endif
