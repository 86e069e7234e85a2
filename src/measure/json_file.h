// JSON documents on disk.
#ifndef MEASURE_JSON_FILE_H
#define MEASURE_JSON_FILE_H

#include <jansson.h>
#include <stdio.h>

// Writes the file `name`, whole or not at all: a temporary file beside it, mode 0600, then a rename. `directory` is a
// descriptor, or AT_FDCWD. SYSTEM or LIMIT: an error that names the file; one that was there stays as it was.
int json_file_save(const json_t *json, int directory, const char *name);

// Opens a regular file for reading, at which neither that nor reading waits. SYSTEM names the path; `want` says what it
// should have been, e.g. "the results.json of a run".
int json_file_open(const char *path, const char *want, FILE **file);

// Reads it: `*json` is the caller's. SYSTEM: it cannot be read, or is no regular file; PROTOCOL: it is not JSON, with
// the place. Errors name the path.
int json_file_load(const char *path, const char *want, json_t **json);

#endif
