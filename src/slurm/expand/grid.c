// Finds the axes, and the values of each step.
#include "slurm/expand/grid.h"

#include <string.h>

static bool is_excluded(const struct slurm_test *test, const char *key) {
  const struct toml_value *list = slurm_test_get(test, "dse_excluded_args");
  for (size_t i = 0; list && list->type == TOML_ARRAY && i < list->count; i++) {
    const char *name = list->children[i].text;
    if (strcmp(name, key) == 0 || (strncmp(name, "cmd_args.", 9) == 0 && strcmp(name + 9, key) == 0))
      return true;
  }
  return false;
}

// A plan is itself a list of lists, so for plans only a list of texts, or of plans, is an axis.
static bool is_axis(const struct toml_value *value) {
  if (value->type != TOML_ARRAY || value->count == 0)
    return false;
  const struct toml_value *first = &value->children[0];
  bool phases = first->type == TOML_ARRAY && (first->count == 0 || first->children[0].type != TOML_ARRAY);
  return strcmp(value->key, "plan") != 0 || !phases;
}

static void add(struct slurm_grid *grid, struct slurm_memory *memory, const char *name, const struct toml_value *value,
                struct slurm_faults *faults) {
  struct slurm_axis *axes = slurm_memory_room(memory, grid->axes, grid->num_axes, sizeof *axes);
  if (!axes)
    return;
  if (value->count > SLURM_MOST_RUNS || grid->num_steps * value->count > SLURM_MOST_RUNS) {
    slurm_fault(faults, value->at, "%s makes the grid larger than %d runs: want shorter lists", name, SLURM_MOST_RUNS);
    return;
  }
  grid->axes = axes;
  axes[grid->num_axes++] = (struct slurm_axis){name, value};
  grid->num_steps *= (uint32_t)value->count;
}

void slurm_grid_make(struct slurm_grid *grid, struct slurm_memory *memory, const struct slurm_test *test,
                     struct slurm_faults *faults) {
  const struct toml_value *nodes = slurm_test_get(test, "num_nodes");
  *grid = (struct slurm_grid){.num_steps = 1};
  for (size_t i = 0; i < test->num_args; i++)
    if (is_axis(test->args[i]) && !is_excluded(test, test->args[i]->key))
      add(grid, memory, test->args[i]->key, test->args[i], faults);
  for (size_t i = 0; i < test->num_env; i++)
    if (is_axis(test->env[i]))
      add(grid, memory, slurm_memory_print(memory, "extra_env_vars.%s", test->env[i]->key), test->env[i], faults);
  if (nodes && is_axis(nodes))
    add(grid, memory, "NUM_NODES", nodes, faults);
}

const struct toml_value *slurm_grid_at(const struct slurm_grid *grid, uint32_t step, const struct toml_value *value) {
  for (size_t i = grid->num_axes; i-- > 0;) {
    const struct toml_value *list = grid->axes[i].value;
    if (list == value)
      return &list->children[step % list->count];
    step /= (uint32_t)list->count;
  }
  return value;
}
