// A test of a batch: an entry of a scenario over the test file that it names, or one of both.
#ifndef SLURM_EXPAND_TEST_H
#define SLURM_EXPAND_TEST_H

#include "slurm/files/files.h"
#include "slurm/schema/keys.h"

struct slurm_test {
  const char *id;
  enum slurm_test_type type;
  const struct toml_value *scenario;    // NULL: a test file alone
  const struct toml_value *entry;       // [[Tests]]; NULL likewise
  const struct toml_value *base;        // the test file; NULL: the entry is the whole test
  const struct toml_value **args;       // cmd_args: of the file, with the entry's in their place or behind them
  const struct toml_value **env;        // extra_env_vars likewise
  const struct toml_value **extra_args; // extra_cmd_args likewise
  size_t num_args, num_env, num_extra_args;
  struct toml_place at; // of the test as a whole
};

struct slurm_tests {
  struct slurm_test *list;
  size_t count;
};

// Finds the tests of the files: the scenario's, or without a scenario each test file's. Tells faults of ids, names and
// cmd_args.
void slurm_tests_make(struct slurm_tests *tests, struct slurm_files *files, struct slurm_memory *memory,
                      struct slurm_faults *faults);

// A key of the entry, else of the test file, else NULL.
const struct toml_value *slurm_test_get(const struct slurm_test *test, const char *key);

// A key of cmd_args, or NULL.
const struct toml_value *slurm_test_arg(const struct slurm_test *test, const char *key);

const struct slurm_test *slurm_tests_find(const struct slurm_tests *tests, const char *id);

// The string of a key as above, NULL where there is none or no string.
const char *slurm_test_string(const struct slurm_test *test, const char *key);

#endif
