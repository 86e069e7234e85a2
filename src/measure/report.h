// What the reports share.
#ifndef MEASURE_REPORT_H
#define MEASURE_REPORT_H

#include "base/text/table.h"
#include "base/text/text.h"
#include "measure/results.h"

// Numbers keep all their digits, so that every report of a file is that of the run.
#define REPORT_JSON_FLAGS JSON_INDENT(2)

// The writers do not look whether `out` took what they wrote; report_write() does. NOMEM.
int report_text(FILE *out, const struct results *results, const struct report_options *options);
void report_csv(FILE *out, const struct results *results);
int report_json(FILE *out, const struct results *results);

// The tables of the text report. NOMEM.
int report_phases(FILE *out, const struct results *results, const struct report_options *options);
int report_transitions(FILE *out, const struct results *results, const struct report_options *options);
void report_stalls(FILE *out, const struct results *results); // what joiners did not cause of them

// Of the head. How many experts a token really selected; and where ranks outnumbered their processors, else nothing.
void report_add_topk(struct text *text, const struct results *results);
void report_add_shortage(struct text *text, const struct results *results);

enum { REPORT_WIDTH = 120 }; // columns that a text report keeps to

// How a state looks in text.
struct report_state {
  const char *unicode, *ascii; // symbol
  const char *label;
  enum table_style style;
};
extern const struct report_state report_states[];

// How many ranks are in each state.
struct report_counts {
  uint32_t of[RESULTS_NUM_STATES];
};
void report_count(struct report_counts *counts, const struct results_phase *phase);

// Adds ", "-separated counts like "7 passed, 1 killed as planned"; not those of ranks that are no members.
void report_add_counts(struct text *text, const struct report_counts *counts);

// The length of the piece of `text` that fits into one line of `width` columns, cut at a blank where there is one, and
// where the next piece begins.
size_t report_wrap(const char *text, size_t width);
const char *report_after(const char *text, size_t length);

#endif
