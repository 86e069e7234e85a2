// Waits until a run comes to a phase, by what its lead agent notes in its run directory.
#ifndef SLURM_WAIT_PHASE_H
#define SLURM_WAIT_PHASE_H

#include <stdint.h>
#include <sys/types.h>

// Until phase `phase` (from 0) has begun. TIMEOUT: it had not after so many seconds. UNREACHABLE: process `lead` ended
// before. The directory and its events need not be there yet. [any]
int slurm_wait_phase(const char *run_directory, uint32_t phase, pid_t lead, uint32_t timeout_s);

#endif
