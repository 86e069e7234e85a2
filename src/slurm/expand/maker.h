// The sources of the parts of a run, and their destination. Each part reports its faults at the place of their cause.
#ifndef SLURM_EXPAND_MAKER_H
#define SLURM_EXPAND_MAKER_H

#include "slurm/core/lists.h"
#include "slurm/core/request.h"
#include "slurm/expand/grid.h"

struct slurm_maker {
  const struct slurm_request *request;
  struct slurm_memory *memory;
  struct slurm_faults *faults;
  const struct toml_value *system; // NULL: there is none
  const struct slurm_test *test;   // NULL: the command line alone
  struct slurm_grid grid;
  uint32_t step; // of the grid, from 0
};

// The value of a key of cmd_args, or of the test, in this step; NULL: there is no such key, or no test.
const struct toml_value *slurm_maker_arg(const struct slurm_maker *maker, const char *key);
const struct toml_value *slurm_maker_get(const struct slurm_maker *maker, const char *key);
const char *slurm_maker_arg_text(const struct slurm_maker *maker, const char *key); // NULL: no string

// Make the nodes and all other resources that Slurm is asked for; then the processes, their container and their
// environment.
void slurm_make_resources(const struct slurm_maker *maker, struct slurm_run *run);
void slurm_make_processes(const struct slurm_maker *maker, struct slurm_run *run);
void slurm_make_container(const struct slurm_maker *maker, struct slurm_run *run);
void slurm_make_environment(const struct slurm_maker *maker, struct slurm_run *run);

// Makes the plan, which has to fit the nodes and processes.
void slurm_make_plan(const struct slurm_maker *maker, struct slurm_run *run);

// Makes the program, its store and its options.
void slurm_make_program(const struct slurm_maker *maker, struct slurm_run *run);
void slurm_make_options(const struct slurm_maker *maker, struct slurm_run *run);
// Chooses the memory of a plan's operations where the options give none. The options and the environment are known.
void slurm_make_memory(const struct slurm_maker *maker, struct slurm_run *run);
// Whether the script of a job gives this option itself. `*key`: the key of files for it, NULL: there is none.
bool slurm_option_is_reserved(const char *name, const char **key);
// Checks the run's further words, which [extra_cmd_args] and --options gave. With --as-written they are not those of a
// program of Weft.
void slurm_check_words(const struct slurm_maker *maker, const struct slurm_run *run);
void slurm_make_nsys(const struct slurm_maker *maker, struct slurm_run *run); // the nodes are known

#endif
