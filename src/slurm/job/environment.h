// The environment variables of Slurm's commands.
#ifndef SLURM_JOB_ENVIRONMENT_H
#define SLURM_JOB_ENVIRONMENT_H

// The variables of this process, without those that would change the query or the job: variables of squeue that hide or
// sort jobs, variables of sbatch that have precedence over the script's own #SBATCH lines, and those that describe the
// job in which this process runs. `script`: the script to submit, or NULL. The caller frees the array, but not its
// strings; NULL: memory ran out. [any]
char **slurm_environment(const char *script);

#endif
