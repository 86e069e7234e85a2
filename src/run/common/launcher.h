// What a parallel launcher says to each process that it starts: srun, mpirun, or another that speaks PMI.
#ifndef RUN_COMMON_LAUNCHER_H
#define RUN_COMMON_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

enum { RUN_LAUNCHER_HOST = 256 };

struct run_launcher {
  const char *name;             // "srun", "mpirun" or "PMI", for messages
  const char *variable;         // that said `task`
  uint32_t task, num_tasks;     // this process among those that were started together
  bool one_host;                // all of them are on this host
  char host[RUN_LAUNCHER_HOST]; // where task 0 runs; "": the launcher does not say
  uint32_t job, step;           // of Slurm; 0: there is none
};

// Reads the environment. INVALID: no launcher has started this process, or a variable is wrong, which the error names.
int run_launcher_read(struct run_launcher *launcher);

// The port of the lead's store that all tasks of a job expect where none is given: by the job's number, so that two
// jobs on one host do not meet; RUN_DEFAULT_PORT without one.
uint16_t run_launcher_port(const struct run_launcher *launcher);

#endif
