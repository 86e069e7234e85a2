// What a batch is once its directory stands: batch.json, from which it is submitted, watched, cancelled and reported,
// also by somebody else than the process that made it.
#ifndef SLURM_FOLDER_RECORD_H
#define SLURM_FOLDER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "slurm/run_spec.h"

#define SLURM_FILE_BATCH "batch.json"

// A job to be submitted.
struct slurm_job_record {
  const char *name;    // by which it is found again in the queue, with the batch's directory
  const char *script;  // relative to the batch's directory; NULL: it cancels another job
  int32_t cancels;     // index of that job; negative: it runs a script
  const char *array;   // "0-7"; NULL: none
  const json_t *needs; // dependencies: a list of {"type", "job"}, sbatch's word and an index of this list
  uint32_t id;         // Slurm's number; 0: not submitted yet
  size_t num_runs;     // that it has; several without an array go one after the other
};

// A run of it.
struct slurm_run_record {
  const char *id, *test;
  const char *directory; // relative to the batch's
  uint32_t job;          // index of its job
  int32_t task;          // of the job's array; negative: there is none
  uint32_t step, iteration, phases, nodes;
  const json_t *action; // what the grid chose: an object of texts
  enum slurm_reward reward;
};

struct slurm_record {
  const char *name;
  char *directory; // absolute
  struct slurm_job_record *jobs;
  struct slurm_run_record *runs;
  size_t num_jobs, num_runs;
  bool begun;           // submission has: a job that the queue has under one of these names may be this batch's
  uint32_t last_before; // but for those up to this number, which were there before
  json_t *json;         // what all of it points into
};

// The names that batch.json has.
extern const char *const slurm_reward_names[];

// Reads DIR/batch.json. SYSTEM: there is none; PROTOCOL: it is not what this version writes, and which member.
int slurm_record_load(struct slurm_record *record, const char *directory);
void slurm_record_free(struct slurm_record *record);

// Notes, before the first job is submitted, the highest number that the queue has of this directory; in the file, too.
int slurm_record_begin(struct slurm_record *record, uint32_t last_before);

// Notes the number that Slurm gave to a job, in the file, too: whole or not at all.
int slurm_record_submitted(struct slurm_record *record, size_t job, uint32_t id);

// A path below a run's directory, or with NULL for `run` below the batch's; to be freed. NULL when memory ran out.
char *slurm_record_path(const struct slurm_record *record, const struct slurm_run_record *run, const char *name);

// Of several processes that submit or cancel a batch at once, one does: holds DIR/lock until the descriptor is closed.
// BUSY: another process holds it.
int slurm_record_lock(const struct slurm_record *record, int *fd);

#endif
