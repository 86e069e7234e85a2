// The keys of the files: tests, scenarios, systems.
#ifndef SLURM_SCHEMA_KEYS_H
#define SLURM_SCHEMA_KEYS_H

#include "slurm/schema/schema.h"

enum slurm_test_type { SLURM_TEST_NIXL_EP, SLURM_TEST_NIXL_BENCH, SLURM_TEST_UNKNOWN };

extern const struct slurm_schema slurm_keys_test;     // a file of one test
extern const struct slurm_schema slurm_keys_scenario; // a file of several tests, one in each entry
extern const struct slurm_schema slurm_keys_system;

// cmd_args of the test types; other keys are options of the program.
extern const struct slurm_schema slurm_keys_nixl_ep, slurm_keys_nixl_bench;

enum slurm_test_type slurm_keys_type(const char *template_name);

#endif
