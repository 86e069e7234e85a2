// Runs Slurm's commands, each with a deadline.
#ifndef SLURM_JOB_COMMAND_H
#define SLURM_JOB_COMMAND_H

#include <stdint.h>

#include "base/text/text.h"

enum { SLURM_COMMAND_MS = 60000 }; // slurmctld itself gives up after 10 s; a busy one makes its clients try again

// Runs argv[0], found by PATH, with an empty standard input, and adds its standard output to `out`. `script`: the
// script that it submits, whose #SBATCH lines have precedence over environment variables; NULL: none. SYSTEM: it cannot
// be started, or its exit status is not 0; the error has its standard error. TIMEOUT: it did not end within
// `timeout_ms` and was killed. [any]
int slurm_command(struct text *out, uint32_t timeout_ms, const char *const *argv, const char *script);

#endif
