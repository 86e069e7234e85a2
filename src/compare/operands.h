// Reads runs as a command line names them: FILE, FILE,FILE for repeats, or LABEL=FILE,FILE.
#ifndef COMPARE_OPERANDS_H
#define COMPARE_OPERANDS_H

#include "compare/model/run.h"

enum { OPERANDS_MOST = 64 };

struct operands {
  struct compare_run runs[OPERANDS_MOST];
  size_t count;
  bool read_stdin;             // standard input has been read already
  const char *html, *baseline; // files to be written, so they must not be read; or NULL
};

// Adds a run and reads its files; if the label exists already, the files become repeats of its run. INVALID: the text
// names no file, there are too many runs, standard input is named twice, or a file is `html` or `baseline`; other
// errors as of input_add_file().
int operands_add(struct operands *operands, const char *text);
void operands_free(struct operands *operands);

// Split a text "KEY=VALUE", and read a number in percent. INVALID.
int operands_pair(const char *text, char *key, size_t cap, const char **value);
int operands_percent(const char *option, const char *text, double *percent);

#endif
