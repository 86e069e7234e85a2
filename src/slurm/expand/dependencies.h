// The dependencies of tests, and an order in which all tests can be submitted.
#ifndef SLURM_EXPAND_DEPENDENCIES_H
#define SLURM_EXPAND_DEPENDENCIES_H

#include "slurm/expand/test.h"
#include "slurm/run_spec.h"

// Fills order[tests->count] with indices of the tests: a test comes after those that it waits for, otherwise in the
// order of the file. Reports unknown ids and circles. False: there is no such order.
bool slurm_dependencies_order(const struct slurm_tests *tests, size_t *order, struct slurm_memory *memory,
                              struct slurm_faults *faults);

// Reads the dependencies of a test.
void slurm_dependencies_read(const struct slurm_test *test, struct slurm_run *run, struct slurm_memory *memory);

#endif
