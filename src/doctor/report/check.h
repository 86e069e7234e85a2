// A check: a function that judges the facts and adds its findings to the report.
#ifndef DOCTOR_REPORT_CHECK_H
#define DOCTOR_REPORT_CHECK_H

#include "doctor/report/facts.h"
#include "doctor/report/report.h"

// Judges only the facts, and changes only the report.
typedef void doctor_judge_fn(const struct doctor_facts *facts, struct doctor_report *report);

#endif
