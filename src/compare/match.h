// Finds which row of one run belongs to which row of another run.
#ifndef COMPARE_MATCH_H
#define COMPARE_MATCH_H

#include "compare/model/run.h"

struct match_options {
  size_t num_ignored;
  const char *const *ignored; // keys that are not used for matching
};

struct match {
  size_t num_pairs;
  struct match_pair {
    json_t *keys; // the keys of both rows: the common ones, and those that only one of them has
    const struct compare_row *baseline, *value;
  } * pairs;
  json_t *only_in; // list of {"run": label, "keys": {...}}
  json_t *dropped; // list of keys that only one of the runs has, so they were not used
};

void match_free(struct match *match);

// Matches rows by the keys that both runs have. INVALID: rows of one run differ only in keys that the other run does
// not have, so the match is ambiguous, or the runs have no row in common; both errors say what was found and which
// option helps. NOMEM.
int match_runs(const struct compare_run *baseline, const struct compare_run *value, const struct match_options *options,
               struct match *match);

#endif
