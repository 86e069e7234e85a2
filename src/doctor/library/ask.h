// Queries a library in a child process, so that only the child crashes or hangs if the library does.
#ifndef DOCTOR_LIBRARY_ASK_H
#define DOCTOR_LIBRARY_ASK_H

#include <stdio.h>

#include "doctor/report/facts.h"
#include "doctor/report/report.h"

// Loads the library and queries it. It runs in the child, and writes lines to `out`: "missing WHY", "version TEXT",
// "transport NAME".
typedef void doctor_ask_fn(FILE *out);

void doctor_ask_library(struct doctor_library_facts *facts, doctor_ask_fn *ask, uint32_t timeout_ms);

struct doctor_library_words {
  const char *name;    // "UCX"
  const char *package; // "libucx0"
  const char *means;   // what is not available without it
};

void doctor_judge_library(const struct doctor_library_facts *facts, const struct doctor_library_words *words,
                          struct doctor_report *report);

#endif
