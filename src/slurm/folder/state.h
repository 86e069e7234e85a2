// How the runs of a batch stand: by Slurm's queue as long as it knows their jobs, then by what they left.
#ifndef SLURM_FOLDER_STATE_H
#define SLURM_FOLDER_STATE_H

#include "slurm/folder/record.h"
#include "slurm/job/job.h"

enum slurm_progress {
  SLURM_NOT_SUBMITTED,
  SLURM_WAITS,     // in the queue
  SLURM_RUNS,      // or did when Slurm was asked last
  SLURM_PASSED,    // every number was right
  SLURM_FAILED,    // `reason` says why
  SLURM_CANCELLED, // by somebody, before its end
  SLURM_LOST,      // the job has gone, and there are no results
  SLURM_NUM_PROGRESS,
};

struct slurm_run_state {
  enum slurm_progress progress;
  char job_state[32]; // Slurm's word; "": it knows the job no longer
  char reason[512];
  bool unexplained; // FAILED or LOST, and no results say why: the reason has what a log ends with
  char nodes[128];
  int32_t phase; // the last that has begun; negative: none has
  char *results; // path of the results that count, those of the last attempt; NULL: there are none
};

// As the JSON and CSV reports name it, e.g. "passed".
const char *slurm_progress_name(enum slurm_progress progress);
bool slurm_progress_is_end(enum slurm_progress progress);

// Of every run, in their order, into list[record->num_runs]; free each. Slurm is asked once. `silent`: where it does
// not answer, or is not here, the files decide, and `*silent` is set; NULL: that is an error.
int slurm_states_read(const struct slurm_record *record, struct slurm_run_state *list, bool *silent);
void slurm_states_free(struct slurm_run_state *list, size_t count);

// --- phases.c: what the lead agent notes while it runs ---

// Reads events as they come. Zero-initialise.
struct slurm_phases {
  char *path;    // of the events that are read
  long offset;   // up to which
  int32_t phase; // the last that began, counted from 1; 0: none
};

typedef void slurm_phase_fn(void *arg, uint32_t phase, bool begins);

// What is new since the last call; `told` may be NULL. A job that is started again begins again with phase 0.
void slurm_phases_read(struct slurm_phases *phases, const char *run_directory, slurm_phase_fn *told, void *arg);
void slurm_phases_free(struct slurm_phases *phases);

// The newest regular file of this name in the directory or in one of the directories in it; with `word`, among those
// that have it in their first 4 KiB. To be freed; NULL: there is none.
char *slurm_newest_file(const char *directory, const char *name, const char *word);

// --- last_line.c: what the steps printed ---

// Of the logs in a run's directory, the one that tells best why it failed: "node-oak01.log ends: LINE", shortened, into
// out[cap]; "" where they say nothing.
void slurm_last_line(char *out, size_t cap, const char *directory);

#endif
