// The files of a request. They are read, their kind is recognised by their keys, and each is checked by its schema.
#ifndef SLURM_FILES_FILES_H
#define SLURM_FILES_FILES_H

#include "slurm/core/faults.h"
#include "slurm/core/memory.h"
#include "slurm/core/request.h"

enum slurm_file_kind { SLURM_KIND_TEST, SLURM_KIND_SCENARIO, SLURM_KIND_SYSTEM };

struct slurm_file {
  const char *path;
  enum slurm_file_kind kind;
  struct toml_value *root;
  uint64_t device, inode; // one file may have several paths
  bool of_folder;         // is in --tests-dir: checked only if a scenario names it
  bool checked;
};

struct slurm_files {
  struct slurm_file *list;
  size_t count;
};

// Adds faults of the files to `faults`. It returns an error only if memory runs out or the build has no TOML parser.
int slurm_files_load(struct slurm_files *files, struct slurm_memory *memory, const struct slurm_request *request,
                     struct slurm_faults *faults);
void slurm_files_free(struct slurm_files *files);

// The test of that name; NULL: there is none.
struct slurm_file *slurm_files_test(struct slurm_files *files, const char *name);

// The test in the file at that path; loads the file if that has not been done yet. NULL: there is a fault, reported at
// `at`.
struct slurm_file *slurm_files_path(struct slurm_files *files, struct slurm_memory *memory, const char *path,
                                    struct toml_place at, struct slurm_faults *faults);

// The first file of a kind; NULL: there is none.
const struct slurm_file *slurm_files_first(const struct slurm_files *files, enum slurm_file_kind kind);

// Checks a file by its schema, if that has not been done yet.
void slurm_file_check(struct slurm_file *file, struct slurm_faults *faults);

// Resolves a path that `file` contains: it is absolute, or relative to the folder of the file.
const char *slurm_file_relative(struct slurm_memory *memory, const char *file, const char *path);

#endif
