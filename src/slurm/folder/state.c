// Finds the states of runs.
#include "slurm/folder/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "measure/json_file.h"

static const char *const names[SLURM_NUM_PROGRESS] = {[SLURM_NOT_SUBMITTED] = "not_submitted",
                                                      [SLURM_WAITS] = "waits",
                                                      [SLURM_RUNS] = "runs",
                                                      [SLURM_PASSED] = "passed",
                                                      [SLURM_FAILED] = "failed",
                                                      [SLURM_CANCELLED] = "cancelled",
                                                      [SLURM_LOST] = "lost"};

const char *slurm_progress_name(enum slurm_progress progress) {
  return names[progress];
}

bool slurm_progress_is_end(enum slurm_progress progress) {
  return progress > SLURM_RUNS;
}

static void copy_text(char *to, size_t cap, const char *from) {
  snprintf(to, cap, "%s", from ? from : "");
  printable_text(to);
}

// Judges a run by its results. A document without `passed` is a benchmark's: it is written when the benchmark
// has passed.
static void judge_results(struct slurm_run_state *state) {
  json_t *json = NULL;
  if (json_file_load(state->results, "results", &json) != 0) {
    state->progress = SLURM_FAILED;
    copy_text(state->reason, sizeof state->reason, weft_last_error());
    return;
  }
  const json_t *passed = json_object_get(json, "passed");
  state->progress = !passed || json_is_true(passed) ? SLURM_PASSED : SLURM_FAILED;
  if (state->progress == SLURM_FAILED)
    copy_text(state->reason, sizeof state->reason, json_string_value(json_object_get(json, "error")));
  if (state->progress == SLURM_FAILED && !state->reason[0])
    copy_text(state->reason, sizeof state->reason, "a rank failed: the report has its reason");
  json_decref(json);
}

// Reads the exit status from a file of the run's directory; negative: there is none. PROTOCOL: the file is incomplete.
static int load_status(const struct slurm_record *record, const struct slurm_run_record *run, const char *name,
                       int *status) {
  char *path = slurm_record_path(record, run, name);
  json_t *json = NULL;
  int err = path ? json_file_load(path, "the status of a run", &json) : WEFT_ERR_NOMEM;
  *status = json_is_integer(json_object_get(json, "exit_status"))
                ? (int)json_integer_value(json_object_get(json, "exit_status"))
                : -1;
  json_decref(json);
  free(path);
  return err;
}

// The exit status that the job's script wrote; negative: there is none. If the script could not write the new file, or
// could not rename it, the new file still exists. Then the old file, if any, is from an earlier attempt.
static int left_status(const struct slurm_record *record, const struct slurm_run_record *run, bool *unwritten) {
  int status, err = load_status(record, run, SLURM_FILE_STATUS_NEW, &status);
  *unwritten = err == WEFT_ERR_PROTOCOL;
  if (err && !*unwritten)
    load_status(record, run, SLURM_FILE_STATUS, &status);
  return status;
}

static bool is(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

static void say_preempted(struct slurm_run_state *state) {
  char reason[sizeof state->reason];
  memcpy(reason, state->reason, sizeof reason);
  snprintf(state->reason, sizeof state->reason, "preempted by another job%s%.*s", *reason ? ": " : "",
           (int)sizeof reason - 32, reason);
}

static void say_unwritten(struct slurm_run_state *state) {
  size_t length = strlen(state->reason);
  snprintf(state->reason + length, sizeof state->reason - length,
           "; its " SLURM_FILE_STATUS " could not be written: is the file system full, or a quota used up?");
}

static void say_last_line(struct slurm_run_state *state, const char *directory) {
  char line[sizeof state->reason];
  size_t length = strlen(state->reason);
  slurm_last_line(line, sizeof line, directory);
  if (*line)
    snprintf(state->reason + length, sizeof state->reason - length, "; %s", line);
}

// The results come from the lead. Another step may have failed, or a figure may have been refused. Then Slurm's state
// is FAILED; after Slurm has forgotten the job, the exit status that the script left shows it.
static void judge_status(struct slurm_run_state *state, int status) {
  if (state->progress != SLURM_PASSED || status <= 0)
    return;
  state->progress = SLURM_FAILED;
  state->unexplained = true;
  snprintf(state->reason, sizeof state->reason, "the run ended with exit status %d", status);
}

// Judges a job that has ended, or that Slurm has forgotten (`job` is NULL). Slurm's state has precedence over old
// results: a job that was cancelled or reached its limit has not passed.
static void judge_end(struct slurm_run_state *state, const struct slurm_run_record *run, const struct slurm_job *job,
                      int status) {
  if (run->as_written && status == 0 && (!job || is(job->state, "COMPLETED"))) {
    state->progress = SLURM_PASSED; // such a run leaves no results, and its script has judged its logs
    return;
  }
  if (state->results)
    judge_results(state);
  if (state->results && !job)
    judge_status(state, status);
  bool preempted = job && is(job->state, "PREEMPTED");
  bool cancelled = preempted || (job && is(job->state, "CANCELLED"));
  if (state->results && !cancelled && (!job || state->progress == SLURM_FAILED || is(job->state, "COMPLETED")))
    return;
  if (cancelled)
    state->progress = SLURM_CANCELLED;
  else if (!job && status < 0)
    state->progress = SLURM_LOST;
  else
    state->progress = SLURM_FAILED;
  if (preempted)
    say_preempted(state);
  if (state->reason[0])
    return;
  state->unexplained = !cancelled;
  if (job && status > 0)
    snprintf(state->reason, sizeof state->reason, "the job ended as %s, the run with exit status %d%s", job->state,
             status, state->results ? "" : ", and left no results");
  else if (job)
    snprintf(state->reason, sizeof state->reason, "the job ended as %s (%s)%s", job->state, job->reason,
             state->results ? "" : " and left no results");
  else if (status >= 0)
    snprintf(state->reason, sizeof state->reason, "the run ended with exit status %d and left no results", status);
  else
    copy_text(state->reason, sizeof state->reason, "Slurm does not know the job, and it left no results");
}

// Judges a run that has its own job, or its own task of an array.
static void judge_alone(struct slurm_run_state *state, const struct slurm_run_record *run, const struct slurm_job *job,
                        int status) {
  if (!job || slurm_job_ended(job))
    judge_end(state, run, job, status);
  else
    state->progress = slurm_job_waits(job) ? SLURM_WAITS : SLURM_RUNS;
}

// Judges one of several runs of a job: whatever the job's state is, this run may have ended, or not begun.
static void judge_part(struct slurm_run_state *state, const struct slurm_run_record *run, const struct slurm_job *job,
                       int status) {
  if (status >= 0) {
    judge_end(state, run, NULL, status);
    return;
  }
  judge_alone(state, run, job, status);
  if (state->progress != SLURM_RUNS || state->phase >= 0)
    return;
  state->progress = SLURM_WAITS;
  snprintf(state->reason, sizeof state->reason, "for the runs before it in job %u", job->id);
}

static void read_state(const struct slurm_record *record, const struct slurm_run_record *run,
                       const struct slurm_jobs *queue, bool unasked, struct slurm_run_state *state) {
  const struct slurm_job_record *of = &record->jobs[run->job];
  const struct slurm_job *job = of->id ? slurm_jobs_find(queue, of->id, run->task) : NULL;
  *state = (struct slurm_run_state){.phase = -1};
  if (!of->id)
    return;
  bool unwritten;
  const int status = left_status(record, run, &unwritten); // read before the results, which exist if it exists
  char *path = slurm_record_path(record, run, "");
  struct slurm_phases phases = {0};
  if (path) {
    slurm_phases_read(&phases, path, NULL, NULL);
    state->results = slurm_newest_file(path, SLURM_FILE_RESULTS, NULL);
  }
  state->phase = phases.phase - 1;
  slurm_phases_free(&phases);
  if (job) {
    copy_text(state->job_state, sizeof state->job_state, job->state);
    copy_text(state->nodes, sizeof state->nodes, job->nodes);
  }
  if (of->num_runs > 1 && run->task < 0)
    judge_part(state, run, job, status);
  else
    judge_alone(state, run, job, status);
  if (unasked && state->progress == SLURM_LOST)
    copy_text(state->reason, sizeof state->reason, "it has left no results, and Slurm does not answer");
  if (unwritten && (state->progress == SLURM_FAILED || state->progress == SLURM_LOST))
    say_unwritten(state);
  if (state->unexplained && path)
    say_last_line(state, path);
  free(path);
  if (job && state->progress == SLURM_WAITS && !state->reason[0] && !is(job->reason, "None"))
    copy_text(state->reason, sizeof state->reason, job->reason);
}

int slurm_states_read(const struct slurm_record *record, struct slurm_run_state *list, bool *silent) {
  struct slurm_jobs queue = {0};
  int err = slurm_jobs_read(&queue);
  bool unasked = err && silent;
  if (unasked) {
    *silent = true;
    err = 0;
  }
  for (size_t i = 0; !err && i < record->num_runs; i++)
    read_state(record, &record->runs[i], &queue, unasked, &list[i]);
  slurm_jobs_free(&queue);
  return err;
}

void slurm_states_free(struct slurm_run_state *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(list[i].results);
    list[i].results = NULL;
  }
}
