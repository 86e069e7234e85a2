// Compares runs: for each row and figure the change, its confidence interval, and whether it is more than noise.
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include <stdio.h>

#include "compare/match.h"
#include "compare/statistics/change.h"

enum compare_pairing { COMPARE_PAIR_AUTO, COMPARE_PAIR_YES, COMPARE_PAIR_NO };

struct compare_options {
  double limit; // the largest allowed change for the worse, in percent; negative: no limit
  double floor; // changes below so many percent are ignored
  size_t resamples;
  uint64_t seed;
  enum compare_pairing pairing;
  size_t num_figures; // 0: all except percentiles
  const char *const *figures;
  bool percentiles; // include percentiles
  struct match_options match;
};

enum compare_verdict {
  COMPARE_SAME,    // no more than noise, or below the floor
  COMPARE_BETTER,  // better by more than noise
  COMPARE_WORSE,   // worse by more than noise
  COMPARE_UNKNOWN, // a change without an interval: each side has one figure, and its variation is not known
};

struct compare_line {
  json_t *keys;
  const char *figure, *unit; // of the run's series
  bool higher;               // higher values are better
  size_t run;                // the run that is compared with the first one
  struct change change;
  double adjusted;        // chance, adjusted for the number of rows
  size_t measurements[2]; // of the baseline and of the value: repeats if there are several, else iterations
  enum compare_verdict verdict;
  bool beyond; // the change for the worse is beyond the limit
};

struct comparison {
  const struct compare_run *runs;
  size_t num_runs;
  const struct compare_options *options;
  size_t num_lines;
  struct compare_line *lines;
  json_t *only_in; // list of {"run", "keys"}
  json_t *dropped; // keys that were not used for matching
  json_t *alone;   // figures that only one of two matching rows has, as members of an object
  size_t counts[COMPARE_UNKNOWN + 1], beyond;
};

// "same", "better", "worse", "unknown".
extern const char *const compare_verdict_names[];

// Compares each run with the first one. `runs` and `options` have to outlive the comparison. INVALID: two runs have no
// row in common, or the match is ambiguous; NOT_FOUND: no run has a figure that was asked for. NOMEM.
int compare_runs(const struct compare_run *runs, size_t num_runs, const struct compare_options *options,
                 struct comparison *comparison);
void compare_free(struct comparison *comparison);

// Makes the document {"weft_comparison": 1, ...}. NULL: memory ran out.
json_t *compare_to_json(const struct comparison *comparison);

struct compare_look {
  bool color, unicode;
  size_t width;
};

// Write tables for a terminal, for a pull request, and for programs. SYSTEM: `out` cannot be written.
int compare_write_table(FILE *out, const struct comparison *comparison, const struct compare_look *look);
int compare_write_markdown(FILE *out, const struct comparison *comparison);
int compare_write_csv(FILE *out, const struct comparison *comparison);

#endif
