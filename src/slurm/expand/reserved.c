// The options that the script of a job gives to the program itself, and the keys of files for them.
#include <string.h>

#include "slurm/expand/maker.h"

static const struct {
  const char *option, *key;
} reserved[] = {
    {"plan", "plan"},
    {"num-processes", "num_processes_per_node"},
    {"num-agents", "num_nodes of the scenario"},
    {"num-nodes", "num_nodes of the scenario"},
    {"local-workers", "num_processes_per_node"},
    {"startup-timeout", "service_startup_timeout_seconds"},
    {"store-port", "store_port"},
    {"listen", NULL},
    {"rank-server", NULL},
    {"tcp-server", NULL},
    {"job", NULL},
    {"run-dir", NULL},
    {"json", NULL},
    {"token", NULL},
    {"benchmark-group", NULL},
    {"runtime-type", NULL},
};

static bool is_one(const char *name, const char *option) {
  for (; *option && (*name == *option || (*name == '_' && *option == '-')); option++)
    name++;
  return !*option && !*name;
}

bool slurm_option_is_reserved(const char *name, const char **key) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    if (is_one(name, reserved[i].option)) {
      *key = reserved[i].key;
      return true;
    }
  return false;
}
