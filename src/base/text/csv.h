// Comma-separated values, RFC 4180.
#ifndef BASE_TEXT_CSV_H
#define BASE_TEXT_CSV_H

#include <stdio.h>

// Writes a text field, in quotes if it needs them.
void csv_write_text(FILE *out, const char *text);

#endif
