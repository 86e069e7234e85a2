// The run directory: what a run leaves, from which every report can be made again.
//   config.json plan.json host.json (versions and topology) events.jsonl results.json rank-<r>.log
#ifndef RUN_DIRECTORY_H
#define RUN_DIRECTORY_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/text.h"

struct run_directory {
  char *path;
  FILE *events;
  size_t kept;    // bytes of `path` that were there before
  char lost[256]; // the first file that lacks something that could not be written, and why; "": none does
};

// Makes `path` with its parents, NULL: weft-run/<UTC date>-<time>-<first 8 of run><suffix>, and events.jsonl. It may be
// there already. BUSY: it holds a run; SYSTEM: it cannot be written.
int run_directory_open(struct run_directory *directory, const char *path, const char *run, const char *suffix);
void run_directory_close(struct run_directory *directory);

// Closes it and takes away what was made, for a run that did not begin: no rank has a log yet.
void run_directory_discard(struct run_directory *directory);

// Writes a JSON file and takes `json` over; NULL is NOMEM.
int run_directory_save(const struct run_directory *directory, const char *name, json_t *json);

// Notes that this file of the directory lacks something, for this reason.
void run_directory_lost(struct run_directory *directory, const char *name, int error);

// The path of a file in it; the caller frees it. NULL when memory ran out.
char *run_directory_file(const struct run_directory *directory, const char *name);
char *run_directory_log(const struct run_directory *directory, int32_t rank);

// Appends one event, {"time_ns": now, "kind": kind, and the rest}, and takes `rest`, an object or NULL, over. A time_ns
// in `rest` wins.
void run_directory_event(struct run_directory *directory, const char *kind, json_t *rest);

// Adds the last lines of the rank's log to `text`, each after "  | ".
void run_directory_log_tail(const struct run_directory *directory, int32_t rank, unsigned lines, struct text *text);

#endif
