// What the reports of a comparison share.
#ifndef COMPARE_REPORT_WORDS_H
#define COMPARE_REPORT_WORDS_H

#include "compare/compare.h"

enum { WORDS_CELL = 64 };

// A key's value as readable text, which the caller frees; "" if the row does not have the key. NULL: memory ran out.
char *words_key(const json_t *keys, const char *key);

// The keys that differ among the lines, the most important first: a list of names that the caller owns. NULL: memory
// ran out.
json_t *words_columns(const struct comparison *comparison);

// Write a figure with up to five digits, a change as "+6.4 %", and an interval as "+4.0 .. +9.1 %" ("" if there is
// none).
const char *words_number(double value, char out[WORDS_CELL]);
const char *words_change(const struct compare_line *line, char out[WORDS_CELL]);
const char *words_interval(const struct compare_line *line, char out[WORDS_CELL]);

// "12 rows: 1 worse, 2 better, 9 same"; the caller frees the text. NULL: memory ran out.
char *words_summary(const struct comparison *comparison);

// A sentence on how to read the intervals, and sentences with facts about the runs, one a line. The caller frees the
// text. NULL: memory ran out.
char *words_notes(const struct comparison *comparison);

#endif
