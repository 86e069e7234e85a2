// weft elastic --launcher: takes options from the variables of srun or mpirun, which started this process.
#ifndef CLI_COMMANDS_ELASTIC_LAUNCHER_H
#define CLI_COMMANDS_ELASTIC_LAUNCHER_H

#include "run/common/config.h"
#include "run/common/launcher.h"

// Strings that the configuration points to.
struct elastic_launcher {
  struct run_launcher of;
  char job[64], run_dir[4096];
};

// Fills in what the options do not give: the number of agents, which one leads, the lead's host and port, one rank
// process for each agent, the name of the job, and a run directory for each task. INVALID: no launcher has started this
// process, or one of its variables is missing; then the error names the option that replaces it.
int elastic_take_launcher(struct run_config *config, struct elastic_launcher *launched);

#endif
