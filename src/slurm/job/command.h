// Slurm is called through its commands, each with a deadline.
#ifndef SLURM_JOB_COMMAND_H
#define SLURM_JOB_COMMAND_H

#include <stdint.h>

#include "base/text/text.h"

enum { SLURM_COMMAND_MS = 60000 }; // slurmctld itself gives up after 10 s; a busy one makes its clients try again

// Runs argv[0], found by PATH, with nothing on its standard input, and adds what it prints on standard output to `out`.
// `script`: what it submits, whose lines go before variables of the environment; NULL: nothing.
// SYSTEM: it cannot be started, or ended with an exit status that is not 0, and the error has what it said on standard
// error; TIMEOUT: it did not end within `timeout_ms` and was killed. [any]
int slurm_command(struct text *out, uint32_t timeout_ms, const char *const *argv, const char *script);

#endif
