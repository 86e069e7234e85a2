// Runs compared: per row and figure the change, how sure it is, and whether it is more than noise.
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include <stdio.h>

#include "compare/match.h"
#include "compare/statistics/change.h"

enum compare_pairing { COMPARE_PAIR_AUTO, COMPARE_PAIR_YES, COMPARE_PAIR_NO };

struct compare_options {
  double limit; // percent that a change for the worse may have; negative: there is none
  double floor; // percent below which a change is none that anybody cares about
  size_t resamples;
  uint64_t seed;
  enum compare_pairing pairing;
  size_t num_figures; // 0: all but percentiles
  const char *const *figures;
  bool percentiles; // they too
  struct match_options match;
};

enum compare_verdict {
  COMPARE_SAME,    // not more than noise, or below the floor
  COMPARE_BETTER,  // more than noise
  COMPARE_WORSE,   // likewise
  COMPARE_UNKNOWN, // a change without an interval: one figure on each side, and nothing that says how it varies
};

struct compare_line {
  json_t *keys;
  const char *figure, *unit; // of the run's series
  bool higher;               // is better
  size_t run;                // that is compared with the first
  struct change change;
  double adjusted;        // chance, after all rows were counted
  size_t measurements[2]; // of the baseline and of the value: repeats where there are several, else iterations
  enum compare_verdict verdict;
  bool beyond; // the limit
};

struct comparison {
  const struct compare_run *runs;
  size_t num_runs;
  const struct compare_options *options;
  size_t num_lines;
  struct compare_line *lines;
  json_t *only_in; // list of {"run", "keys"}
  json_t *dropped; // keys that did not count in matching
  size_t counts[COMPARE_UNKNOWN + 1], beyond;
};

// "same", "better", "worse", "unknown".
extern const char *const compare_verdict_names[];

// Compares each run with the first one. `runs` and `options` have to outlive it. INVALID: two runs have nothing in
// common, or it is not clear what; NOT_FOUND: a figure that was asked for is nowhere. NOMEM.
int compare_runs(const struct compare_run *runs, size_t num_runs, const struct compare_options *options,
                 struct comparison *comparison);
void compare_free(struct comparison *comparison);

// The document {"weft_comparison": 1, ...}. NULL: memory ran out.
json_t *compare_to_json(const struct comparison *comparison);

struct compare_look {
  bool color, unicode;
  size_t width;
};

// Tables for people, for a pull request, and for programs. SYSTEM: `out` cannot be written.
int compare_write_table(FILE *out, const struct comparison *comparison, const struct compare_look *look);
int compare_write_markdown(FILE *out, const struct comparison *comparison);
int compare_write_csv(FILE *out, const struct comparison *comparison);

#endif
