// Reads events as they are written, and checks between the reads whether the lead's process lives.
#include "slurm/wait/phase.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum { LOOK_MS = 20 };

struct events {
  char *path;
  long offset; // offset of what is not read yet
};

static bool begins(const char *line, uint32_t phase) {
  json_t *event = json_loads(line, 0, NULL);
  const char *kind = json_string_value(json_object_get(event, "kind"));
  json_int_t found = json_integer_value(json_object_get(event, "phase"));
  bool is = kind && strcmp(kind, "phase_begin") == 0 && found >= (json_int_t)phase;
  json_decref(event);
  return is;
}

// Reads only complete lines: the last one may not be completely written yet.
static bool has_begun(struct events *events, uint32_t phase) {
  FILE *file = fopen(events->path, "re");
  char *line = NULL;
  size_t cap = 0;
  ssize_t size;
  bool begun = false;
  if (!file)
    return false;
  if (fseek(file, events->offset, SEEK_SET) == 0)
    while (!begun && (size = getline(&line, &cap, file)) > 0 && line[size - 1] == '\n') {
      begun = strstr(line, "\"phase_begin\"") && begins(line, phase);
      events->offset += size;
    }
  free(line);
  fclose(file);
  return begun;
}

int slurm_wait_phase(const char *run_directory, uint32_t phase, pid_t lead, uint32_t timeout_s) {
  uint64_t deadline = clock_deadline_ms((uint64_t)timeout_s * 1000);
  struct events events = {0};
  int err = 0;
  if (asprintf(&events.path, "%s/events.jsonl", run_directory) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory for a path");
  while (!err && !has_begun(&events, phase)) {
    if (lead > 0 && kill(lead, 0) != 0 && errno == ESRCH && !has_begun(&events, phase))
      err = fail(WEFT_ERR_UNREACHABLE, "the lead, process %d, ended before phase %u began", (int)lead, phase);
    else if (clock_passed(deadline))
      err = fail(WEFT_ERR_TIMEOUT, "phase %u of %s did not begin within %u s", phase, run_directory, timeout_s);
    else
      poll(NULL, 0, LOOK_MS);
  }
  free(events.path);
  return err;
}
