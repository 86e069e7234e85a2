// Files that are written as a whole or not at all: public ones, such as pages and figures for a node exporter, and
// private ones.
#ifndef MEASURE_WHOLE_FILE_H
#define MEASURE_WHOLE_FILE_H

#include <stdbool.h>
#include <stdio.h>

// Writes the contents. Returns 0, or an error with its sentence. The caller checks `out` for write errors.
typedef int (*whole_file_fn)(FILE *out, const void *arg);

// Writes a temporary file beside the file and renames it, so that a reader never sees a part, and the old contents stay
// if the disk is full. Its mode is 0666 without the bits of the umask, since others read it. SYSTEM or LIMIT: the path
// is no regular file, or cannot be written; errors name it. [any]
int whole_file_save(const char *path, whole_file_fn write, const void *arg);

// The same with mode 0600, for files that others must not read. [any]
int whole_file_save_private(const char *path, whole_file_fn write, const void *arg);

// Checks whether a rename may put a file there. SYSTEM: it would replace a directory, a device, a pipe or a link, such
// as /dev/null and /dev/stdout. [any]
int whole_file_check_place(const char *path);

// Checks whether the file could be written now, with the same errors; leaves nothing there. [any]
int whole_file_check(const char *path);

// Whether both paths lead to the same file, however they are written, even if it does not exist yet. [any]
bool whole_file_is_one(const char *a, const char *b);

// INVALID: `output`, which the option names, is also the `input`: the file, or the results.json in the directory of a
// run. Either may be NULL. [any]
int whole_file_check_input(const char *option, const char *output, const char *input);

#endif
