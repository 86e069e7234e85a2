// The run directory: what a run leaves, from which every report can be made again.
//   config.json plan.json host.json (versions and topology) events.jsonl results.json rank-<r>.log
//
// It belongs to this user, who alone may write to it, and is held by a descriptor: whatever happens to its path, files
// are made in the directory that was looked at. Directories are made with mode 0700, files with 0600 and anew: what
// stands there already, a link or a FIFO among it, is not written to. Only a rank's log goes on where it ended.
#ifndef RUN_DIRECTORY_RUN_DIRECTORY_H
#define RUN_DIRECTORY_RUN_DIRECTORY_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/text/text.h"

#define RUN_DIRECTORY_OTHER "--run-dir DIR chooses another" // the remedy, for each message about it

struct run_directory {
  char *path;     // for messages; NULL: none is open
  int fd;         // O_PATH
  int base;       // where the first directory that was made stands, under the name path + made; -1: none was made
  size_t made;    // bytes of `path`
  unsigned files; // those that were made and are taken away by discard, as bits
  FILE *events;
  char lost[256]; // the first file that lacks something that could not be written, and why; "": none does
};

// Makes `path` with its parents, NULL: weft-run/<UTC date>-<time>-<first 8 of run><suffix>, and events.jsonl. It may be
// there already. BUSY: it holds a run; INVALID: it is not this user's alone, or a link, or others may put another in
// its place; SYSTEM: it cannot be written.
int run_directory_open(struct run_directory *directory, const char *path, const char *run, const char *suffix);
void run_directory_close(struct run_directory *directory);

// Closes it and takes away what was made, for a run that did not begin: no rank has a log yet.
void run_directory_discard(struct run_directory *directory);

// Writes a new JSON file and takes `json` over; NULL is NOMEM. BUSY: there is one.
int run_directory_save(struct run_directory *directory, const char *name, json_t *json);

// Notes that this file of the directory lacks something, for this reason.
void run_directory_lost(struct run_directory *directory, const char *name, int error);

// A descriptor that appends to the rank's log, which a rank that came before may have begun. SYSTEM: what has its name
// is no file of this user alone.
int run_directory_open_log(const struct run_directory *directory, int32_t rank, int *fd);

// Appends one event, {"time_ns": now, "kind": kind, and the rest}, and takes `rest`, an object or NULL, over. A time_ns
// in `rest` wins.
void run_directory_event(struct run_directory *directory, const char *kind, json_t *rest);

// Adds the last lines of the rank's log to `text`, each after "  | ".
void run_directory_log_tail(const struct run_directory *directory, int32_t rank, unsigned lines, struct text *text);

// --- run_directory_make.c ---

// Makes directory->path with its parents, checks the way to it, and fills fd, base and made. After an error, too,
// run_directory_unmake() takes away what was made.
int run_directory_make(struct run_directory *directory);
void run_directory_unmake(struct run_directory *directory);

#endif
