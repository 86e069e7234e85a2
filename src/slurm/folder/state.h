// The states of the runs of a batch: from Slurm's queue as long as it knows their jobs, afterwards from their files.
#ifndef SLURM_FOLDER_STATE_H
#define SLURM_FOLDER_STATE_H

#include "slurm/folder/record.h"
#include "slurm/job/job.h"

enum slurm_progress {
  SLURM_NOT_SUBMITTED,
  SLURM_WAITS,     // in the queue
  SLURM_RUNS,      // is running, or was at the last query of Slurm
  SLURM_PASSED,    // every number was right
  SLURM_FAILED,    // `reason` says why
  SLURM_CANCELLED, // somebody cancelled it before its end
  SLURM_LOST,      // the job has ended, and there are no results
  SLURM_NUM_PROGRESS,
};

struct slurm_run_state {
  enum slurm_progress progress;
  char job_state[32]; // Slurm's name of the state; "": Slurm no longer knows the job
  char reason[512];
  bool unexplained; // FAILED or LOST, and no results give the reason: `reason` has the end of a log
  char nodes[128];
  int32_t phase; // the last phase that has begun; negative: none has
  char *results; // path of the results of the last attempt; NULL: there are none
};

// The name in JSON and CSV reports, e.g. "passed".
const char *slurm_progress_name(enum slurm_progress progress);
bool slurm_progress_is_end(enum slurm_progress progress);

// Reads the state of every run, in order, into list[record->num_runs]; free each. Queries Slurm once. If Slurm does not
// answer or is not installed, the states come from the files and `*silent` is set; if `silent` is NULL, that is an
// error.
int slurm_states_read(const struct slurm_record *record, struct slurm_run_state *list, bool *silent);
void slurm_states_free(struct slurm_run_state *list, size_t count);

// --- phases.c: the events that the lead agent writes while it runs ---

// Reads events as they come. Zero-initialise.
struct slurm_phases {
  char *path;    // of the file of events
  long offset;   // up to which the file has been read
  int32_t phase; // the last phase that began, counted from 1; 0: none
};

typedef void slurm_phase_fn(void *arg, uint32_t phase, bool begins);

// Reads the events since the last call; `report` may be NULL. A job that is started again begins again with phase 0.
void slurm_phases_read(struct slurm_phases *phases, const char *run_directory, slurm_phase_fn *report, void *arg);
void slurm_phases_free(struct slurm_phases *phases);

// Finds the newest regular file of this name in the directory or in one of its subdirectories. With `word`, only files
// with this word in their first 4 KiB count. The caller frees the path; NULL: there is none.
char *slurm_newest_file(const char *directory, const char *name, const char *word);

// --- last_line.c: the output of the steps ---

// Chooses the log in a run's directory that explains the failure best, and writes "node-oak01.log ends: LINE",
// shortened, to out[cap]; "" if the logs are empty. If the script has found what made a run fail (SLURM_FILE_FATAL), it
// is this: "node-oak01.log:17: LINE".
void slurm_last_line(char *out, size_t cap, const char *directory);

#endif
