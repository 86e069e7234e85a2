// Functions that the reports share.
#ifndef MEASURE_REPORT_H
#define MEASURE_REPORT_H

#include "base/text/digits.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "measure/results.h"

#define REPORT_JSON_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON))

// The writers do not check `out` for write errors; report_write() does. NOMEM.
int report_text(FILE *out, const struct results *results, const struct report_options *options);
void report_csv(FILE *out, const struct results *results);
int report_json(FILE *out, const struct results *results);

// The tables of the text report. NOMEM.
int report_phases(FILE *out, const struct results *results, const struct report_options *options);
int report_transitions(FILE *out, const struct results *results, const struct report_options *options);
void report_stalls(FILE *out, const struct results *results,
                   const struct report_options *options); // the part of the stalls that joiners did not cause

// Part of the head: how many experts a token really selected; and where there were more ranks than processors,
// otherwise nothing.
void report_add_topk(struct text *text, const struct results *results);
void report_add_shortage(struct text *text, const struct results *results);
// The bound of the run and how much of it was used: results->config.bound, which older results do not have.
void report_add_bound(struct text *text, const struct results *results);
// For throughput mode: the window and related settings; what was not checked, and why.
void report_add_window(struct text *text, const struct results *results);
void report_add_left_out(struct text *text, const struct results *results);

// The columns of a text report.
static inline size_t report_width(const struct report_options *options) {
  return options->width ? options->width : RESULTS_WIDTH;
}

// How a state is shown in text.
struct report_state {
  const char *unicode, *ascii; // symbol
  const char *label;
  const char *name; // name in the table of a phase, whose title says "as planned"
  enum table_style style;
};
extern const struct report_state report_states[];

// How many ranks are in each state.
struct report_counts {
  uint32_t of[RESULTS_NUM_STATES];
};
void report_count(struct report_counts *counts, const struct results_phase *phase);

// Adds ", "-separated counts like "7 passed, 1 killed as planned", without ranks that are no members.
void report_add_counts(struct text *text, const struct report_counts *counts);

#endif
