// Breaks text into lines of a width. Columns are counted as in table.h.
#ifndef BASE_TEXT_WRAP_H
#define BASE_TEXT_WRAP_H

#include <stddef.h>
#include <stdio.h>

// The length of the piece of `text` that fits into one line of `width` columns, cut at a blank if there is one; and
// where the next piece begins.
size_t wrap_length(const char *text, size_t width);
const char *wrap_after(const char *text, size_t length);

// Writes words from column `at` on (the line may have text before it), and ends the last line. The following lines are
// indented by `indent`; a newline in the text begins a new line. A word that is longer than a line is not cut, so that
// a path or a command can be copied. Control characters are printed as '?'.
void wrap_write(FILE *out, const char *text, size_t at, size_t indent, size_t width);

#endif
