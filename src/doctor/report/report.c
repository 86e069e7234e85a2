// Collects findings, and describes them as JSON.
#include "doctor/report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *doctor_grade_name(enum doctor_grade grade) {
  static const char *const names[] = {"ok", "note", "problem"};
  return names[grade];
}

static char *format_text(struct doctor_report *report, const char *format, va_list arguments) {
  char *text = NULL;
  if (vasprintf(&text, format, arguments) >= 0)
    return text;
  report->failed = true;
  return NULL;
}

static bool has_room(struct doctor_report *report) {
  if (report->count < report->capacity)
    return true;
  size_t capacity = report->capacity ? 2 * report->capacity : 32;
  struct doctor_finding *findings = realloc(report->findings, capacity * sizeof *findings);
  if (!findings)
    return false;
  report->findings = findings;
  report->capacity = capacity;
  return true;
}

void doctor_find(struct doctor_report *report, enum doctor_grade grade, const char *format, ...) {
  report->failed |= !has_room(report);
  if (report->failed)
    return;
  va_list arguments;
  va_start(arguments, format);
  report->findings[report->count++] =
      (struct doctor_finding){.check = report->check, .grade = grade, .found = format_text(report, format, arguments)};
  va_end(arguments);
}

void doctor_means(struct doctor_report *report, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!report->failed)
    report->findings[report->count - 1].means = format_text(report, format, arguments);
  va_end(arguments);
}

void doctor_fix(struct doctor_report *report, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!report->failed)
    report->findings[report->count - 1].fix = format_text(report, format, arguments);
  va_end(arguments);
}

size_t doctor_count(const struct doctor_report *report, enum doctor_grade grade) {
  size_t count = 0;
  for (size_t i = 0; i < report->count; i++)
    count += report->findings[i].grade == grade;
  return count;
}

json_t *doctor_report_describe(const struct doctor_report *report) {
  json_t *findings = json_array();
  for (size_t i = 0; i < report->count; i++) {
    const struct doctor_finding *at = &report->findings[i];
    json_array_append_new(findings, json_pack("{s:s, s:s, s:s?, s:s?, s:s?}", "check", at->check, "grade",
                                              doctor_grade_name(at->grade), "found", at->found, "means", at->means,
                                              "fix", at->fix));
  }
  size_t problems = doctor_count(report, DOCTOR_PROBLEM), notes = doctor_count(report, DOCTOR_NOTE);
  return json_pack("{s:b, s:I, s:I, s:o}", "ok", problems == 0, "problems", (json_int_t)problems, "notes",
                   (json_int_t)notes, "findings", findings);
}

void doctor_report_free(struct doctor_report *report) {
  for (size_t i = 0; i < report->count; i++) {
    free(report->findings[i].found);
    free(report->findings[i].means);
    free(report->findings[i].fix);
  }
  free(report->findings);
  *report = (struct doctor_report){0};
}
