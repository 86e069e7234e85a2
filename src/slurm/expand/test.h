// A test of a batch: an entry of a scenario together with the test file that it names, or only one of the two.
#ifndef SLURM_EXPAND_TEST_H
#define SLURM_EXPAND_TEST_H

#include "slurm/files/files.h"
#include "slurm/schema/keys.h"

struct slurm_test {
  const char *id;
  enum slurm_test_type type;
  const struct toml_value *scenario;    // NULL: a test file alone
  const struct toml_value *entry;       // [[Tests]]; NULL: a test file alone
  const struct toml_value *base;        // the test file; NULL: the entry is the whole test
  const struct toml_value **args;       // cmd_args of the file; those of the entry replace them or are added
  const struct toml_value **env;        // the same of extra_env_vars
  const struct toml_value **extra_args; // the same of extra_cmd_args
  size_t num_args, num_env, num_extra_args;
  struct toml_place at; // of the test as a whole
};

struct slurm_tests {
  struct slurm_test *list;
  size_t count;
};

// Finds the tests of the scenario, or without a scenario the test of each test file. Reports faults of ids, names and
// cmd_args.
void slurm_tests_make(struct slurm_tests *tests, struct slurm_files *files, struct slurm_memory *memory,
                      struct slurm_faults *faults);

// The value of a key of the entry, else of the test file, else NULL.
const struct toml_value *slurm_test_get(const struct slurm_test *test, const char *key);

// The value of a key of cmd_args, or NULL.
const struct toml_value *slurm_test_arg(const struct slurm_test *test, const char *key);

const struct slurm_test *slurm_tests_find(const struct slurm_tests *tests, const char *id);

// The string of a key as above; NULL if there is no such key or it is not a string.
const char *slurm_test_string(const struct slurm_test *test, const char *key);

#endif
