// Reads lines of other programs' output, and the numbers in them.
#ifndef COMPARE_READ_LINES_H
#define COMPARE_READ_LINES_H

#include "compare/read/read.h"

enum { LINES_MAX = 2048, LINES_WORDS = 64 };

struct lines {
  const char *at, *end;
  unsigned number;      // of the line, from 1
  char line[LINES_MAX]; // longer ones are cut; UTF-8 without control characters
};

struct lines lines_of(const struct compare_text *text);

// Reads the next line and removes the prefix of mpirun ("[1,0]<stdout>:") or `srun -l` ("0: "). False: there is none.
bool lines_next(struct lines *lines);

// Whether a line of the text contains `what`.
bool lines_have(const struct compare_text *text, const char *what);

// Cuts the line into words at blanks, in place; returns how many, at most LINES_WORDS.
size_t lines_words(char *line, char *words[LINES_WORDS]);

// Whether a word is a decimal number below COMPARE_MOST; "nan", "inf" and hexadecimal numbers are not accepted.
bool lines_number(const char *word, double *value);

// As lines_number(). PROTOCOL: the error names the line.
int lines_want_number(const struct lines *lines, const char *what, const char *word, double *value);

// The number directly after the first `before` in the line. False: there is none.
bool lines_number_after(const char *line, const char *before, double *value);

// The number before the first `after` in the line, with one blank between them. False: there is none.
bool lines_number_before(const char *line, const char *after, double *value);

#endif
