// Runs as they are named on a command line: FILE, FILE,FILE for repeats, or LABEL=FILE,FILE.
#ifndef COMPARE_OPERANDS_H
#define COMPARE_OPERANDS_H

#include "compare/model/run.h"

enum { OPERANDS_MOST = 64 };

struct operands {
  struct compare_run runs[OPERANDS_MOST];
  size_t count;
  bool read_stdin;             // already
  const char *html, *baseline; // which are to be written, and therefore none of the files; or NULL
};

// Adds a run and reads its files; a label that is known already adds repeats to its run. INVALID: the text has no file
// in it, there are too many, standard input is named twice, or a file is `html` or `baseline`; else as
// input_add_file().
int operands_add(struct operands *operands, const char *text);
void operands_free(struct operands *operands);

// Of a text "KEY=VALUE" or a number in percent. INVALID.
int operands_pair(const char *text, char *key, size_t cap, const char **value);
int operands_percent(const char *option, const char *text, double *percent);

#endif
