// weft elastic --launcher: task 0 leads, the others follow it; all of them have the same command line.
#include "cli/commands/elastic_launcher.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "run/common/own_address.h"

// All tasks have the same command line, but each needs its own files.
static int choose_run_dir(struct run_config *config, struct elastic_launcher *launched) {
  if (!config->run_dir || launched->of.task == 0)
    return 0;
  int size = snprintf(launched->run_dir, sizeof launched->run_dir, "%s-task%u", config->run_dir, launched->of.task);
  if (size >= (int)sizeof launched->run_dir)
    return fail(WEFT_ERR_INVALID, "--run-dir %s is too long", config->run_dir);
  config->run_dir = launched->run_dir;
  return 0;
}

// With an existing store every agent may lead: the first one does.
static int choose_lead(struct run_config *config, const struct run_launcher *of) {
  if (config->store)
    return 0;
  if (of->num_tasks > 1 && !config->token)
    return fail(WEFT_ERR_INVALID,
                "--launcher: %u agents need one token: set WEFT_TOKEN before %s (with mpirun on several hosts also -x "
                "WEFT_TOKEN), or give all of them the same --token-file",
                of->num_tasks, of->name);
  if (config->store_port == 0)
    config->store_port = run_launcher_port(of);
  if (of->task == 0) {
    config->lead = NULL;
    if (!config->listen)
      config->listen = of->one_host ? "127.0.0.1" : run_any_address();
    return 0;
  }
  if (!config->lead && !of->host[0])
    return fail(WEFT_ERR_INVALID,
                "--launcher: %s does not say where its task 0 runs: give all tasks --rank-server with that host",
                of->name);
  if (!config->lead)
    config->lead = of->host;
  return 0;
}

int elastic_take_launcher(struct run_config *config, struct elastic_launcher *launched) {
  const struct run_launcher *of = &launched->of;
  int err = run_launcher_read(&launched->of);
  if (err)
    return err;
  if (config->num_agents && config->num_agents != of->num_tasks)
    return fail(WEFT_ERR_INVALID, "--num-agents is %u, and %s has started %u: omit the option, or start that many",
                config->num_agents, of->name, of->num_tasks);
  if (of->task == 0 || config->store)
    config->num_agents = of->num_tasks;
  if (config->num_processes == 0)
    config->num_processes = 1;
  if (of->job && (!config->job || strcmp(config->job, "elastic") == 0)) {
    snprintf(launched->job, sizeof launched->job, "slurm-%u-%u", of->job, of->step);
    config->job = launched->job;
  }
  err = choose_lead(config, of);
  return err ? err : choose_run_dir(config, launched);
}
