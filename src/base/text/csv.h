// Comma-separated values, RFC 4180.
#ifndef BASE_TEXT_CSV_H
#define BASE_TEXT_CSV_H

#include <stdio.h>

// Writes a field of text, in quotes where it has to be.
void csv_write_text(FILE *out, const char *text);

#endif
