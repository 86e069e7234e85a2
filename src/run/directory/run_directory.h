// The run directory: the files that a run leaves. Every report can be made again from them.
//   config.json plan.json host.json (versions and topology) events.jsonl results.json rank-<r>.log
//
// The directory belongs to this user, and only this user may write to it. It is held by a descriptor: even if its path
// changes, files are created in the directory that was checked. Directories are created with mode 0700, files with mode
// 0600. Files are always new: an existing file, link or FIFO is never written to. Only a rank's log is continued where
// it ended.
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
  int base;       // parent of the first directory that was created, whose name is at path + made; -1: none was created
  size_t made;    // length of the part of `path` before that name
  unsigned files; // the created files that discard removes, as bits
  FILE *events;
  char lost[256]; // the first file to which something could not be written, and why; "": there is none
};

// Creates the directory `path` with its parents, and events.jsonl in it. The directory may exist already. With NULL the
// path is weft-run/<UTC date>-<time>-<first 8 of run><suffix>. BUSY: the directory contains a run. INVALID: it does not
// belong to this user alone, it is a link, or other users could replace it. SYSTEM: it cannot be written.
int run_directory_open(struct run_directory *directory, const char *path, const char *run, const char *suffix);
void run_directory_close(struct run_directory *directory);

// Closes the directory and removes everything that was created. For a run that did not begin, so that no rank has a log
// yet.
void run_directory_discard(struct run_directory *directory);

// Writes a new JSON file and takes over `json`; NULL is NOMEM. BUSY: the file exists already.
int run_directory_save(struct run_directory *directory, const char *name, json_t *json);

// Notes that something could not be written to this file of the directory, with the errno as the reason.
void run_directory_lost(struct run_directory *directory, const char *name, int error);

// Opens the rank's log to append to it. An earlier process of the rank may have begun the log. SYSTEM: the log's name
// belongs to something that is not a regular file of this user alone.
int run_directory_open_log(const struct run_directory *directory, int32_t rank, int *fd);

// Appends one event, {"time_ns": now, "kind": kind, and the rest}. Takes over `rest`, an object or NULL. A time_ns in
// `rest` replaces the current time.
void run_directory_event(struct run_directory *directory, const char *kind, json_t *rest);

// Adds the last lines of the rank's log to `text`, each after "  | ".
void run_directory_log_tail(const struct run_directory *directory, int32_t rank, unsigned lines, struct text *text);

// --- run_directory_make.c ---

// Creates directory->path with its parents, checks all directories on the path, and fills fd, base and made.
// run_directory_unmake() removes what was created, also after an error.
int run_directory_make(struct run_directory *directory);
void run_directory_unmake(struct run_directory *directory);

#endif
