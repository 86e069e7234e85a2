// What the reports share.
#ifndef MEASURE_REPORT_H
#define MEASURE_REPORT_H

#include "base/text/digits.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "measure/results.h"

#define REPORT_JSON_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON))

// The writers do not look whether `out` took what they wrote; report_write() does. NOMEM.
int report_text(FILE *out, const struct results *results, const struct report_options *options);
void report_csv(FILE *out, const struct results *results);
int report_json(FILE *out, const struct results *results);

// The tables of the text report. NOMEM.
int report_phases(FILE *out, const struct results *results, const struct report_options *options);
int report_transitions(FILE *out, const struct results *results, const struct report_options *options);
void report_stalls(FILE *out, const struct results *results,
                   const struct report_options *options); // what joiners did not cause of them

// Of the head. How many experts a token really selected; and where ranks outnumbered their processors, else nothing.
void report_add_topk(struct text *text, const struct results *results);
void report_add_shortage(struct text *text, const struct results *results);
// What bounds the run, and how near to that it came: results->config.bound, which older results lack.
void report_add_bound(struct text *text, const struct results *results);
// Of throughput mode: the window and what belongs to it; what was not checked, and why.
void report_add_window(struct text *text, const struct results *results);
void report_add_left_out(struct text *text, const struct results *results);

// The columns of a text report.
static inline size_t report_width(const struct report_options *options) {
  return options->width ? options->width : RESULTS_WIDTH;
}

// How a state looks in text.
struct report_state {
  const char *unicode, *ascii; // symbol
  const char *label;
  const char *name; // in the table of a phase, which says "as planned" in its title
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

#endif
