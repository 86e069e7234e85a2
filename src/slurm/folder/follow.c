// Checks the queue and the events of each run periodically, since a shared file system does not notify of changes.
#include "slurm/folder/follow.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "slurm/folder/state.h"

enum {
  LOOK_MS = 250,   // between two checks of the files of runs
  QUEUE_MS = 1000, // between two queries of Slurm, which serves all users
};

struct followed {
  enum slurm_progress shown;
  char job_state[32], reason[sizeof((struct slurm_run_state *)NULL)->reason];
  struct slurm_phases phases;
};

struct follow {
  const struct slurm_record *record;
  FILE *out;
  struct followed *runs;
  const char *id; // the run whose phases are read
  uint32_t num_phases;
  bool silent; // Slurm does not answer, and this has been printed
};

static void say(const struct follow *follow, const char *id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(const struct follow *follow, const char *id, const char *format, ...) {
  char now[16];
  time_t seconds = time(NULL);
  struct tm local;
  va_list args;
  strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &local));
  fprintf(follow->out, "%s %s: ", now, id);
  va_start(args, format);
  vfprintf(follow->out, format, args);
  va_end(args);
  fputc('\n', follow->out);
  fflush(follow->out);
}

static void show_phase(void *arg, uint32_t phase, bool begins) {
  const struct follow *follow = arg;
  if (begins)
    say(follow, follow->id, "phase %u (%u of %u) begins", phase, phase + 1, follow->num_phases);
  else
    say(follow, follow->id, "phase %u passed", phase);
}

static void show_phases(struct follow *follow, size_t i) {
  const struct slurm_run_record *run = &follow->record->runs[i];
  char *path = slurm_record_path(follow->record, run, "");
  follow->id = run->id;
  follow->num_phases = run->phases;
  if (path)
    slurm_phases_read(&follow->runs[i].phases, path, show_phase, follow);
  free(path);
}

static void show_state(struct follow *follow, size_t i, const struct slurm_run_state *state) {
  const struct slurm_run_record *run = &follow->record->runs[i];
  struct followed *seen = &follow->runs[i];
  uint32_t job = follow->record->jobs[run->job].id;
  bool same = seen->shown == state->progress && strcmp(seen->reason, state->reason) == 0;
  if (state->progress != SLURM_WAITS && !slurm_progress_is_end(seen->shown)) // a run may have ended between two checks
    show_phases(follow, i);
  if (same)
    return;
  snprintf(seen->reason, sizeof seen->reason, "%s", state->reason);
  if (state->progress == SLURM_WAITS)
    say(follow, run->id, "job %u waits%s%s", job, state->reason[0] ? ": " : "", state->reason);
  else if (state->progress == SLURM_RUNS && seen->shown != SLURM_RUNS)
    say(follow, run->id, "job %u runs on %s", job, state->nodes);
  else if (slurm_progress_is_end(state->progress))
    say(follow, run->id, "%s%s%s", slurm_progress_name(state->progress), state->reason[0] ? ": " : "", state->reason);
  seen->shown = state->progress;
}

// `*left`: runs that have not ended; `*bad`: runs that ended without passing.
static int look_at_queue(struct follow *follow, struct slurm_run_state *states, size_t *left, size_t *bad) {
  size_t count = follow->record->num_runs;
  int err = slurm_states_read(follow->record, states, NULL);
  if (err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_SYSTEM) {
    if (!follow->silent)
      say(follow, "slurm", "%s; asking again", weft_last_error());
    follow->silent = true;
    *left = count;
    return 0;
  }
  follow->silent = false;
  *left = *bad = 0;
  for (size_t i = 0; !err && i < count; i++) {
    show_state(follow, i, &states[i]);
    *left += !slurm_progress_is_end(states[i].progress);
    *bad += slurm_progress_is_end(states[i].progress) && states[i].progress != SLURM_PASSED;
  }
  slurm_states_free(states, count);
  return err;
}

static int watch(struct follow *follow, struct slurm_run_state *states, size_t *bad) {
  size_t left = 1;
  uint64_t ask_ns = 0;
  int err = 0;
  while (!err && left > 0) {
    if (clock_passed(ask_ns)) {
      err = look_at_queue(follow, states, &left, bad);
      ask_ns = clock_deadline_ms(QUEUE_MS);
    }
    for (size_t i = 0; !err && i < follow->record->num_runs; i++)
      if (follow->runs[i].shown == SLURM_RUNS)
        show_phases(follow, i);
    if (!err && left > 0 && !stop_came())
      poll(NULL, 0, LOOK_MS);
    if (!err)
      err = stop_check();
    if (!err && ferror(follow->out))
      err = fail(WEFT_ERR_CANCELED, "standard output is closed");
  }
  return err;
}

int slurm_follow(const struct slurm_record *record, FILE *out, size_t *bad) {
  struct follow follow = {.record = record, .out = out, .runs = calloc(record->num_runs, sizeof *follow.runs)};
  struct slurm_run_state *states = calloc(record->num_runs, sizeof *states);
  int err = follow.runs && states ? watch(&follow, states, bad)
                                  : fail(WEFT_ERR_NOMEM, "no memory for %zu runs", record->num_runs);
  for (size_t i = 0; follow.runs && i < record->num_runs; i++)
    slurm_phases_free(&follow.runs[i].phases);
  free(follow.runs);
  free(states);
  return err;
}
