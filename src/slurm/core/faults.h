// What is wrong in files and options: everything is collected, and told at once, each fault with its place.
#ifndef SLURM_CORE_FAULTS_H
#define SLURM_CORE_FAULTS_H

#include <stdio.h>

#include "toml/toml.h"

struct slurm_fault {
  struct toml_place at; // line 0: `path` alone says where, as a file or an option
  bool warning;         // it is said, and nothing is refused for it
  char *text;
};

struct slurm_faults {
  struct slurm_fault *list;
  size_t count;
  size_t errors; // of them
  bool unread;   // a file could not be read: what it has is not known
  bool failed;   // memory ran out: some are missing
};

void slurm_fault(struct slurm_faults *faults, struct toml_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void slurm_warn(struct slurm_faults *faults, struct toml_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether an error is told at that place: what follows from it is not told as well.
bool slurm_fault_is_at(const struct slurm_faults *faults, struct toml_place at);

// At an option of the command line, or at a file as a whole.
struct toml_place slurm_place(const char *path);

// A line for each: FILE:LINE:COLUMN: [warning: ]TEXT, by the order of files, then of lines and columns. The same thing
// at the same place is told once.
void slurm_faults_print(FILE *out, struct slurm_faults *faults);

void slurm_faults_free(struct slurm_faults *faults);

#endif
