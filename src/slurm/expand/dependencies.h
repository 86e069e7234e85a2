// Which test waits for which, and an order in which all can be submitted.
#ifndef SLURM_EXPAND_DEPENDENCIES_H
#define SLURM_EXPAND_DEPENDENCIES_H

#include "slurm/expand/test.h"
#include "slurm/run_spec.h"

// order[tests->count]: indices of the tests, those that others wait for first, else as they stand in the file. Tells
// unknown ids and circles. False: there is no such order.
bool slurm_dependencies_order(const struct slurm_tests *tests, size_t *order, struct slurm_memory *memory,
                              struct slurm_faults *faults);

// What the test waits for.
void slurm_dependencies_read(const struct slurm_test *test, struct slurm_run *run, struct slurm_memory *memory);

#endif
