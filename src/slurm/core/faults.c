// Collects faults and prints them in the order of their places.
#include "slurm/core/faults.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"

static bool is_same(struct toml_place a, struct toml_place b) {
  return a.line == b.line && a.column == b.column && strcmp(a.path, b.path) == 0;
}

// Each run of a grid, and each entry that names the same test, finds the same fault again; it is reported once.
static bool is_reported(const struct slurm_faults *faults, struct toml_place at, const char *text) {
  for (size_t i = 0; i < faults->count; i++) {
    const struct slurm_fault *fault = &faults->list[i];
    if (is_same(fault->at, at) && strcmp(fault->text, text) == 0)
      return true;
  }
  return false;
}

static void add(struct slurm_faults *faults, struct toml_place at, bool warning, const char *format, va_list args) {
  struct slurm_fault *list = realloc(faults->list, (faults->count + 1) * sizeof *list);
  char *text = NULL;
  if (list)
    faults->list = list;
  if (!list || vasprintf(&text, format, args) < 0) {
    faults->failed = true;
    faults->errors += !warning;
    return;
  }
  printable_line(text); // names and values come from files, so they may have any character
  if (is_reported(faults, at, text)) {
    free(text);
    return;
  }
  faults->list[faults->count++] = (struct slurm_fault){at, warning, text};
  faults->errors += !warning;
}

void slurm_fault(struct slurm_faults *faults, struct toml_place at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(faults, at, false, format, args);
  va_end(args);
}

void slurm_warn(struct slurm_faults *faults, struct toml_place at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(faults, at, true, format, args);
  va_end(args);
}

bool slurm_fault_is_at(const struct slurm_faults *faults, struct toml_place at) {
  for (size_t i = 0; i < faults->count; i++)
    if (!faults->list[i].warning && is_same(faults->list[i].at, at))
      return true;
  return false;
}

struct toml_place slurm_place(const char *path) {
  return (struct toml_place){path, 0, 0};
}

// The index of the fault's file, in the order in which the files first occurred.
static size_t order_of(const struct slurm_faults *faults, const char *path) {
  size_t i = 0;
  while (strcmp(faults->list[i].at.path, path) != 0)
    i++;
  return i;
}

static int compare(const struct slurm_faults *faults, const struct slurm_fault *a, const struct slurm_fault *b) {
  size_t x = order_of(faults, a->at.path), y = order_of(faults, b->at.path);
  if (x != y)
    return x < y ? -1 : 1;
  if (a->at.line != b->at.line)
    return a->at.line < b->at.line ? -1 : 1;
  return a->at.column == b->at.column ? 0 : a->at.column < b->at.column ? -1 : 1;
}

static void print(FILE *out, const struct slurm_fault *fault) {
  if (fault->at.line)
    fprintf(out, "%s:%u:%u: ", fault->at.path, fault->at.line, fault->at.column);
  else
    fprintf(out, "%s: ", fault->at.path);
  fprintf(out, "%s%s\n", fault->warning ? "warning: " : "", fault->text);
}

// Files have few faults, so each step searches for the next one.
void slurm_faults_print(FILE *out, struct slurm_faults *faults) {
  bool *done = calloc(faults->count + 1, sizeof *done);
  for (size_t printed = 0; done && printed < faults->count; printed++) {
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < faults->count; i++)
      if (!done[i] && (next == SIZE_MAX || compare(faults, &faults->list[i], &faults->list[next]) < 0))
        next = i;
    done[next] = true;
    print(out, &faults->list[next]);
  }
  if (!done || faults->failed)
    fputs("out of memory: some faults are not listed\n", out);
  free(done);
}

void slurm_faults_free(struct slurm_faults *faults) {
  for (size_t i = 0; i < faults->count; i++)
    free(faults->list[i].text);
  free(faults->list);
  *faults = (struct slurm_faults){0};
}
