// Runs from files, whatever wrote them.
#ifndef COMPARE_INPUT_H
#define COMPARE_INPUT_H

#include "compare/model/run.h"

// Adds a file of a run: "-" is standard input, a directory is that of a run with its results.json. The format is known
// by the content. SYSTEM: it cannot be read; PROTOCOL: it is no result of a format that is known, or something in it is
// wrong; VERSION: of a version that this one does not read; LIMIT: it is too large. Errors name the file.
int input_add_file(struct compare_run *run, const char *path);

// The same from memory; `name` stands in errors.
int input_add_text(struct compare_run *run, const char *name, const char *data, size_t size);

// Leaves only rows that have the key with the value, as text. NOT_FOUND: there is none; the sentence has the values
// that there are.
int input_keep(struct compare_run *run, const char *key, const char *value);

#endif
