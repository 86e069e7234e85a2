// The information that a parallel launcher gives to each process: srun, mpirun, or another one with PMI.
#ifndef RUN_COMMON_LAUNCHER_H
#define RUN_COMMON_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

enum { RUN_LAUNCHER_HOST = 256 };

struct run_launcher {
  const char *name;             // "srun", "mpirun" or "PMI", for messages
  const char *variable;         // variable that contained `task`
  uint32_t task, num_tasks;     // number of this process among all that were started together
  bool one_host;                // all tasks are on this host
  char host[RUN_LAUNCHER_HOST]; // where task 0 runs; "": the launcher does not say
  uint32_t job, step;           // of Slurm; 0: none
};

// Reads the environment. INVALID: no launcher has started this process, or a variable is wrong, which the error names.
int run_launcher_read(struct run_launcher *launcher);

// The port of the lead's store that all tasks of a job use if no port is given. It depends on the job's number, so that
// two jobs on one host do not conflict; RUN_DEFAULT_PORT without a job.
uint16_t run_launcher_port(const struct run_launcher *launcher);

#endif
