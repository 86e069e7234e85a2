// Asks the plug-in with hwloc which NICs serve a GPU, once.
#include "topology/served/serve.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plugin.h"
#include "topology/read/line.h"

enum { PATH_SIZE = 512, LINE_SIZE = 64, NAMES_SIZE = 4096 };

static const char *root_folder;

void topology_serve_root(const char *root) {
  root_folder = root;
}

// The RDMA devices whose device file this process may open: a container may list all of a host's and allow a few.
// Returns how many; `names` ends with a comma behind each. 0: also when there are more than fit.
static size_t list_openable(char names[NAMES_SIZE]) {
  const char *root = root_folder ? root_folder : "";
  char path[PATH_SIZE], line[LINE_SIZE];
  size_t count = 0, used = 0;
  names[0] = '\0';
  snprintf(path, sizeof path, "%s/sys/class/infiniband_verbs", root);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (strncmp(entry->d_name, "uverbs", 6) != 0)
      continue;
    snprintf(path, sizeof path, "%s/dev/infiniband/%s", root, entry->d_name);
    if (access(path, R_OK | W_OK) != 0)
      continue;
    snprintf(path, sizeof path, "%s/sys/class/infiniband_verbs/%s/ibdev", root, entry->d_name);
    if (!topology_read_line(path, line, sizeof line) || !*line)
      continue;
    used += (size_t)snprintf(names + used, NAMES_SIZE - used, "%s,", line);
    count++;
    if (used >= NAMES_SIZE) {
      count = 0;
      break;
    }
  }
  if (folder)
    closedir(folder);
  return count;
}

bool topology_has_choice(void) {
  char names[NAMES_SIZE];
  return list_openable(names) > 1;
}

static int check(void *arg, void *symbol, const char *path) {
  const struct topology_plugin *found = symbol;
  if (found->abi != TOPOLOGY_SERVE_ABI)
    return fail(WEFT_ERR_UNSUPPORTED,
                "the topology plug-in %s is of another version (its interface has number %u, this library's %u): "
                "install the plug-in and the library of one build",
                path, found->abi, (unsigned)TOPOLOGY_SERVE_ABI);
  found->share(fail_detail);
  *(const struct topology_plugin **)arg = found;
  return 0;
}

static int load(const struct topology_plugin **out) {
  static const struct plugin plugin = {.file = "libweft_topology.so.0",
                                       .called = "topology plug-in",
                                       .package = "libweft_topology",
                                       .variable = "WEFT_TOPOLOGY_PLUGIN",
                                       .symbol = TOPOLOGY_PLUGIN_SYMBOL};
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const struct topology_plugin *loaded;
  pthread_mutex_lock(&lock);
  int rc = loaded ? 0 : plugin_open(&plugin, check, &loaded);
  if (rc == 0)
    *out = loaded;
  pthread_mutex_unlock(&lock);
  return rc;
}

int topology_serve(const char *const *gpus, size_t num_gpus, struct topology_served *served) {
  const struct topology_plugin *plugin = NULL;
  char names[NAMES_SIZE];
  struct topology_ask ask = {.gpus = gpus, .num_gpus = num_gpus, .openable = names, .root = root_folder};
  list_openable(names);
  if (sched_getaffinity(0, sizeof ask.allowed, &ask.allowed) != 0)
    CPU_ZERO(&ask.allowed); // more processors than a cpu_set_t holds: none in particular
  int rc = load(&plugin);
  return rc == 0 ? plugin->serve(&ask, served) : rc;
}
