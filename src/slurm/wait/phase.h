// Waits until a run reaches a phase. It reads the events that the run's lead agent writes to the run directory.
#ifndef SLURM_WAIT_PHASE_H
#define SLURM_WAIT_PHASE_H

#include <stdint.h>
#include <sys/types.h>

// Waits until phase `phase` (from 0) has begun. TIMEOUT: it had not begun after so many seconds. UNREACHABLE: process
// `lead` ended before. The directory and its events need not exist yet. [any]
int slurm_wait_phase(const char *run_directory, uint32_t phase, pid_t lead, uint32_t timeout_s);

#endif
