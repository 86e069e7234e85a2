// Checks whether Weft can work on a host, and reports problems.
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include <weft/store.h>

#include "doctor/report/check.h"

// What to check. Fields that are not needed stay zero.
struct doctor_place {
  const char *root;                       // where /sys, /proc and /dev are, for tests; NULL: "/"
  const char *peer;                       // HOST[:PORT], NULL: none
  const char *token;                      // the secret, which the peer has too
  const struct weft_store_options *store; // NULL: none
  uint32_t timeout_ms;                    // time limit of each step; 0 means 3000
  uint32_t startup_timeout_s;             // how long to retry while nothing listens at the peer; 0: one try
};

struct doctor_check {
  const char *name;
  doctor_judge_fn *judge;
};

// Every check, in the order of the report; ends with a NULL name.
extern const struct doctor_check doctor_checks[];

// Gathers all facts; free them with doctor_facts_free(). It cannot fail: if something cannot be found out, that is a
// fact too. It starts child processes, and ends them.
void doctor_gather(struct doctor_facts *facts, const struct doctor_place *place);
void doctor_facts_free(struct doctor_facts *facts);

// Runs all checks on the facts. Uses nothing else.
void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report);

#endif
