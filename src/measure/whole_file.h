// Files that are written whole or not at all: for others to read, as pages and figures for a node exporter, or not.
#ifndef MEASURE_WHOLE_FILE_H
#define MEASURE_WHOLE_FILE_H

#include <stdbool.h>
#include <stdio.h>

// Writes the contents: 0, or an error with its sentence. The caller looks whether `out` took it.
typedef int (*whole_file_fn)(FILE *out, const void *arg);

// Writes the file: a temporary one beside it, then a rename, so that a reader never sees a part, and what was there
// stays when the disk is full. Its mode is what the umask leaves of 0666: others are to read it. SYSTEM or LIMIT: the
// path is no regular file, or cannot be written; errors name it. [any]
int whole_file_save(const char *path, whole_file_fn write, const void *arg);

// The same with mode 0600, for what others are not to read. [any]
int whole_file_save_private(const char *path, whole_file_fn write, const void *arg);

// Whether a file may be put there by a rename: SYSTEM where that would take away a directory, a device, a pipe or a
// link, as /dev/null and /dev/stdout are. [any]
int whole_file_check_place(const char *path);

// Whether it could be written as things stand, by the same errors; nothing is left there. [any]
int whole_file_check(const char *path);

// Whether both paths lead to one file, however they are written, also to one that is not there yet. [any]
bool whole_file_is_one(const char *a, const char *b);

// INVALID: `output`, which the option names, is `input`, which is to be read: the file, or the results.json in the
// directory of a run. Either may be NULL. [any]
int whole_file_check_input(const char *option, const char *output, const char *input);

#endif
