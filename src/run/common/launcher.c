// Reads the variables that a launcher sets. mpirun has precedence: within an allocation of Slurm the variables of both
// are set, and those of Slurm describe the step that started mpirun.
#include "run/common/launcher.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fail.h"

enum {
  MAX_TASKS = 1 << 20,
  DEFAULT_PORT = 9999,
  FIRST_PORT = 10240, // below the ports of outgoing connections
  NUM_PORTS = 20480,
};

// A launcher, with the variables that it sets in each process that it starts.
static const struct dialect {
  const char *name, *task, *num_tasks;
  const char *num_nodes;   // number of hosts with tasks; NULL: there is no such variable
  const char *local_tasks; // number of tasks on this host; NULL: there is no such variable
} dialects[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", NULL},
    {"PMI", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS"},
};

static int read_number(const char *name, uint32_t *value) {
  const char *text = getenv(name);
  char *end = NULL;
  errno = 0;
  unsigned long number = text ? strtoul(text, &end, 10) : 0;
  if (!text || end == text || *end || errno || number > MAX_TASKS || *text == '-')
    return fail(WEFT_ERR_INVALID, "--launcher: %s is '%s', and should be a number from 0 to %d", name,
                text ? text : "not set", MAX_TASKS);
  *value = (uint32_t)number;
  return 0;
}

static bool has_address(const char *host) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
  bool has = getaddrinfo(host, NULL, &hints, &found) == 0;
  if (has)
    freeaddrinfo(found);
  return has;
}

// The first name of a list of nodes: "n3" of "n3,n5", "rack1-07" of "rack1-[07-09,12]".
static void first_node(const char *list, char *out, size_t cap) {
  size_t plain = strcspn(list, "[,");
  size_t digits = list[plain] == '[' ? strcspn(list + plain + 1, "-,]") : 0;
  int size = snprintf(out, cap, "%.*s%.*s", (int)plain, list, (int)digits, list + plain + (digits ? 1 : 0));
  if (size < 0 || (size_t)size >= cap)
    out[0] = '\0';
}

// Task 0 is on the first node of the step. If the name of that node has no address, the host where srun was started is
// used: in a batch script that is the first node.
static void find_slurm_host(struct run_launcher *launcher) {
  const char *list = getenv("SLURM_STEP_NODELIST"), *origin = getenv("SLURM_LAUNCH_NODE_IPADDR");
  if (list)
    first_node(list, launcher->host, sizeof launcher->host);
  if (launcher->host[0] && has_address(launcher->host))
    return;
  snprintf(launcher->host, sizeof launcher->host, "%s", origin ? origin : "");
}

static int read_dialect(struct run_launcher *launcher, const struct dialect *dialect) {
  uint32_t nodes = 0, local = 0;
  launcher->name = dialect->name;
  launcher->variable = dialect->task;
  int err = read_number(dialect->task, &launcher->task);
  if (!err)
    err = read_number(dialect->num_tasks, &launcher->num_tasks);
  if (!err && dialect->num_nodes)
    err = read_number(dialect->num_nodes, &nodes);
  if (!err && dialect->local_tasks && getenv(dialect->local_tasks))
    err = read_number(dialect->local_tasks, &local);
  if (!err && launcher->task >= launcher->num_tasks)
    return fail(WEFT_ERR_INVALID, "--launcher: %s is %u, and %s is %u: the first should be less", dialect->task,
                launcher->task, dialect->num_tasks, launcher->num_tasks);
  launcher->one_host = nodes == 1 || (local > 0 && local == launcher->num_tasks) || launcher->num_tasks == 1;
  return err;
}

int run_launcher_read(struct run_launcher *launcher) {
  *launcher = (struct run_launcher){0};
  const struct dialect *dialect = dialects, *end = dialects + sizeof dialects / sizeof *dialects;
  while (dialect < end && (!getenv(dialect->task) || !getenv(dialect->num_tasks)))
    dialect++;
  if (dialect == end)
    return fail(WEFT_ERR_INVALID,
                "--launcher is given, and no launcher has started this process: want srun weft elastic ... (inside a "
                "job of Slurm), or mpirun -n N weft elastic ...");
  int err = read_dialect(launcher, dialect);
  if (err)
    return err;
  if (strcmp(dialect->name, "srun") == 0) {
    launcher->job = (uint32_t)strtoul(getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : "0", NULL, 10);
    launcher->step = (uint32_t)strtoul(getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : "0", NULL, 10);
    find_slurm_host(launcher);
  }
  if (launcher->one_host)
    snprintf(launcher->host, sizeof launcher->host, "127.0.0.1");
  return 0;
}

uint16_t run_launcher_port(const struct run_launcher *launcher) {
  if (!launcher->job)
    return DEFAULT_PORT;
  return (uint16_t)(FIRST_PORT + (launcher->job * 31U + launcher->step) % NUM_PORTS);
}
