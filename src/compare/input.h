// Reads runs from files of several formats.
#ifndef COMPARE_INPUT_H
#define COMPARE_INPUT_H

#include "compare/model/run.h"

// Adds a file to a run. "-" is standard input; a directory is a run directory with a results.json. The format is
// recognised by the content. SYSTEM: the file cannot be read; PROTOCOL: it has no result in a known format, or
// something in it is wrong; VERSION: it has a version that this program does not read; LIMIT: it is too large. Errors
// name the file.
int input_add_file(struct compare_run *run, const char *path);

// The same from memory; errors show `name`.
int input_add_text(struct compare_run *run, const char *name, const char *data, size_t size);

// Keeps only rows whose key has this value, compared as text. NOT_FOUND: there is no such row; the error lists the
// existing values.
int input_keep(struct compare_run *run, const char *key, const char *value);

#endif
