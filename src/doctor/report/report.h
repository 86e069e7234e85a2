// The findings of the checks.
#ifndef DOCTOR_REPORT_REPORT_H
#define DOCTOR_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum doctor_grade {
  DOCTOR_OK,
  DOCTOR_NOTE,    // something works, but not as well as it could, or not completely
  DOCTOR_PROBLEM, // something does not work that was asked for, or for which the hardware exists
};

struct doctor_finding {
  const char *check; // its name in the table
  enum doctor_grade grade;
  char *found; // a sentence without its full stop, like the two below
  char *means; // the consequence; NULL: none
  char *fix;   // how to mend it; NULL: there is nothing to mend
};

// Zero-initialise; free with doctor_report_free().
struct doctor_report {
  struct doctor_finding *findings;
  size_t count, capacity;
  const char *check; // the one that is running
  bool failed;       // memory ran out, and the findings since then are missing
};

// Adds a finding of the check that is running.
void doctor_find(struct doctor_report *report, enum doctor_grade grade, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Add the consequence, and how to mend it, to the newest finding.
void doctor_means(struct doctor_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_fix(struct doctor_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t doctor_count(const struct doctor_report *report, enum doctor_grade grade);
const char *doctor_grade_name(enum doctor_grade grade); // "ok", "note", "problem"

// {ok, problems, notes, findings: [{check, grade, found, means, fix}]}; the caller owns it. NULL: memory ran out.
json_t *doctor_report_describe(const struct doctor_report *report);

void doctor_report_free(struct doctor_report *report);

#endif
