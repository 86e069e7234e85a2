// Faults of files and options. All faults are collected with their places, and printed together.
#ifndef SLURM_CORE_FAULTS_H
#define SLURM_CORE_FAULTS_H

#include <stdio.h>

#include "toml/toml.h"

struct slurm_fault {
  struct toml_place at; // line 0: `path` alone says where, as a file or an option
  bool warning;         // it is printed, but it is no error
  char *text;
};

struct slurm_faults {
  struct slurm_fault *list;
  size_t count;
  size_t errors; // number of errors
  bool unread;   // a file could not be read, so its contents are not known
  bool failed;   // memory ran out: some faults are missing
};

void slurm_fault(struct slurm_faults *faults, struct toml_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void slurm_warn(struct slurm_faults *faults, struct toml_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether there is an error at that place already. Callers then do not report its consequences.
bool slurm_fault_is_at(const struct slurm_faults *faults, struct toml_place at);

// The place of an option of the command line, or of a whole file.
struct toml_place slurm_place(const char *path);

// Prints a line for each fault: FILE:LINE:COLUMN: [warning: ]TEXT, in the order of files, then lines and columns. Equal
// faults at the same place are printed once.
void slurm_faults_print(FILE *out, struct slurm_faults *faults);

void slurm_faults_free(struct slurm_faults *faults);

#endif
