// Which row of one run is which row of another.
#ifndef COMPARE_MATCH_H
#define COMPARE_MATCH_H

#include "compare/model/run.h"

struct match_options {
  size_t num_ignored;
  const char *const *ignored; // keys that do not count
};

struct match {
  size_t num_pairs;
  struct match_pair {
    json_t *keys; // what both have, and what only one of them says
    const struct compare_row *baseline, *value;
  } * pairs;
  json_t *only_in; // list of {"run": label, "keys": {...}}
  json_t *dropped; // list of keys that only one of the runs has, and that did not count
};

void match_free(struct match *match);

// Rows are the same by the keys that both runs know. INVALID: rows of one run differ in nothing else than keys that the
// other does not have, so nobody can say which is meant, or nothing is in common: both say what was found, and which
// option helps. NOMEM.
int match_runs(const struct compare_run *baseline, const struct compare_run *value, const struct match_options *options,
               struct match *match);

#endif
