// The variables that Slurm's commands get.
#ifndef SLURM_JOB_ENVIRONMENT_H
#define SLURM_JOB_ENVIRONMENT_H

// This process' own, without those that would change what is asked: squeue's, which hide jobs or sort them, and those
// of sbatch that go before a script's own #SBATCH lines. `script`: what is submitted, or NULL. To be freed, and not its
// strings; NULL: no memory. [any]
char **slurm_environment(const char *script);

#endif
