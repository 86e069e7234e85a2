// The record of a batch in its directory: batch.json. Any process can submit, watch, cancel and report the batch from
// it, not only the one that made it.
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
  const char *name;    // with the batch's directory it identifies the job in the queue
  const char *script;  // relative to the batch's directory; NULL: it cancels another job
  int32_t cancels;     // index of that job; negative: it runs a script
  const char *array;   // "0-7"; NULL: none
  const json_t *needs; // dependencies: a list of {"type", "job"}, sbatch's word and an index of this list
  uint32_t id;         // Slurm's number; 0: not submitted yet
  size_t num_runs;     // number of its runs; without an array they run one after the other
};

// A run of a job.
struct slurm_run_record {
  const char *id, *test;
  const char *directory; // relative to the batch's
  uint32_t job;          // index of its job
  int32_t task;          // of the job's array; negative: there is none
  uint32_t step, iteration, phases, nodes;
  const json_t *action; // what the grid chose: an object of texts
  enum slurm_reward reward;
  bool as_written; // the test's own program ran: its logs have what it measured
};

struct slurm_record {
  const char *name;
  char *directory; // absolute
  struct slurm_job_record *jobs;
  struct slurm_run_record *runs;
  size_t num_jobs, num_runs;
  bool begun;           // submission has begun: a job in the queue with one of these names may belong to this batch
  uint32_t last_before; // jobs up to this number existed before, so they do not belong to it
  json_t *json;         // the pointers above point into it
};

// The names used in batch.json.
extern const char *const slurm_reward_names[];

// Reads DIR/batch.json. SYSTEM: there is none; PROTOCOL: it is not in the form that this version writes; the error
// names the member.
int slurm_record_load(struct slurm_record *record, const char *directory);
void slurm_record_free(struct slurm_record *record);

// Records, before the first job is submitted, the highest job number of this directory in the queue; also in the file.
int slurm_record_begin(struct slurm_record *record, uint32_t last_before);

// Records the number that Slurm gave to a job; also in the file, which is written completely or not at all.
int slurm_record_submitted(struct slurm_record *record, size_t job, uint32_t id);

// Makes a path below a run's directory, or below the batch's if `run` is NULL; the caller frees it. NULL: memory ran
// out.
char *slurm_record_path(const struct slurm_record *record, const struct slurm_run_record *run, const char *name);

// Locks DIR/lock until the descriptor is closed, so that only one process at a time submits or cancels the batch. BUSY:
// another process holds the lock.
int slurm_record_lock(const struct slurm_record *record, int *fd);

#endif
