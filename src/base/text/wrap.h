// Text in lines of a width. Columns are counted as table.h does.
#ifndef BASE_TEXT_WRAP_H
#define BASE_TEXT_WRAP_H

#include <stddef.h>
#include <stdio.h>

// The length of the piece of `text` that fits into one line of `width` columns, cut at a blank where there is one, and
// where the next piece begins.
size_t wrap_length(const char *text, size_t width);
const char *wrap_after(const char *text, size_t length);

// Writes words from column `at` on, where something may stand already, and ends the last line. The lines that follow
// are indented by `indent`; a newline in the text begins one. A word that is longer than a line stays whole, so that a
// path or a command can be copied. Control characters come out as '?'.
void wrap_write(FILE *out, const char *text, size_t at, size_t indent, size_t width);

#endif
