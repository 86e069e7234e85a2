// What the reports of a comparison share.
#ifndef COMPARE_REPORT_WORDS_H
#define COMPARE_REPORT_WORDS_H

#include "compare/compare.h"

enum { WORDS_CELL = 64 };

// A key's value as people read it, the caller's to free; "" where the row does not have it. NULL: memory ran out.
char *words_key(const json_t *keys, const char *key);

// The keys that differ among the lines, the most telling first: a list of names, the caller's. NULL: memory ran out.
json_t *words_columns(const struct comparison *comparison);

// A figure with up to five digits, "+6.4 %", and "+4.0 .. +9.1 %", the last "" without an interval.
const char *words_number(double value, char out[WORDS_CELL]);
const char *words_change(const struct compare_line *line, char out[WORDS_CELL]);
const char *words_interval(const struct compare_line *line, char out[WORDS_CELL]);

// "12 rows: 1 worse, 2 better, 9 same", the caller's to free. NULL: memory ran out.
char *words_summary(const struct comparison *comparison);

// A sentence on how to read the intervals, and sentences on what to know of the runs; each line one. The caller's to
// free. NULL: memory ran out.
char *words_notes(const struct comparison *comparison);

#endif
