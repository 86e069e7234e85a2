// weft elastic --launcher: what follows from having been started by srun or mpirun.
#ifndef CLI_COMMANDS_ELASTIC_LAUNCHER_H
#define CLI_COMMANDS_ELASTIC_LAUNCHER_H

#include "run/common/config.h"
#include "run/common/launcher.h"

// What the configuration points to.
struct elastic_launcher {
  struct run_launcher of;
  char job[64], run_dir[4096];
};

// Fills what the options leave open: the number of agents, which one leads, the lead's host and port, one rank process
// for each agent, the name of the job, and a run directory for each task. INVALID: no launcher has started this
// process, or it says too little, which the error names with the option that would do.
int elastic_take_launcher(struct run_config *config, struct elastic_launcher *launched);

#endif
