// JSON documents on disk.
#ifndef MEASURE_JSON_FILE_H
#define MEASURE_JSON_FILE_H

#include <jansson.h>
#include <stdio.h>

// Writes the file `name`, as a whole or not at all: it writes a temporary file beside it, mode 0600, and renames it.
// `directory` is a descriptor, or AT_FDCWD. SYSTEM or LIMIT names the file; an existing file stays unchanged.
int json_file_save(const json_t *json, int directory, const char *name);

// Opens a regular file for reading, so that neither opening nor reading waits. SYSTEM names the path; `want` says what
// the file should be, e.g. "the results.json of a run".
int json_file_open(const char *path, const char *want, FILE **file);

// Reads the file; `*json` belongs to the caller. SYSTEM: it cannot be read, or is no regular file; PROTOCOL: it is not
// JSON; the error names the place. Errors name the path.
int json_file_load(const char *path, const char *want, json_t **json);

#endif
