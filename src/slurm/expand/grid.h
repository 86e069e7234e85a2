// The grid of a test: an axis for each list in cmd_args, extra_env_vars and num_nodes; a step for each combination.
#ifndef SLURM_EXPAND_GRID_H
#define SLURM_EXPAND_GRID_H

#include "slurm/expand/test.h"

enum { SLURM_MOST_RUNS = 4096 }; // of a batch

struct slurm_axis {
  const char *name;               // as reports show it: "num_tokens", "extra_env_vars.X", "NUM_NODES"
  const struct toml_value *value; // the value in the file, a list
};

struct slurm_grid {
  struct slurm_axis *axes;
  size_t num_axes;
  uint32_t num_steps; // 1: there is no grid
};

// Finds the axes of a test's grid. Reports a fault if it has too many steps.
void slurm_grid_make(struct slurm_grid *grid, struct slurm_memory *memory, const struct slurm_test *test,
                     struct slurm_faults *faults);

// The value of `value` in this step (from 0): `value` itself if it is not an axis. The last axis changes fastest.
const struct toml_value *slurm_grid_at(const struct slurm_grid *grid, uint32_t step, const struct toml_value *value);

#endif
