// Finds the processors near a device in sysfs, and starts threads that run there.
#include "base/affinity.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

enum { PATH_SIZE = 512, LINE_SIZE = 4096, NAME_SIZE = 64 };

bool affinity_parse(const char *list, cpu_set_t *cpus) {
  CPU_ZERO(cpus);
  while (*list && *list != '\n') {
    char *end;
    unsigned long first = strtoul(list, &end, 10), last = first;
    if (end == list || !isdigit((unsigned char)*list))
      return false;
    if (*end == '-') {
      list = end + 1;
      last = strtoul(list, &end, 10);
      if (end == list || !isdigit((unsigned char)*list))
        return false;
    }
    if (first > last || last >= CPU_SETSIZE || (*end && *end != ',' && *end != '\n'))
      return false;
    for (unsigned long cpu = first; cpu <= last; cpu++)
      CPU_SET(cpu, cpus);
    list = *end == ',' ? end + 1 : end;
  }
  return true;
}

static void narrow(const cpu_set_t *to, const cpu_set_t *allowed, struct affinity_place *place, const char *of) {
  cpu_set_t both;
  CPU_AND(&both, to, allowed);
  place->binds = CPU_COUNT(&both) > 0 && !CPU_EQUAL(&both, allowed);
  if (place->binds)
    place->cpus = both;
  snprintf(place->why, sizeof place->why, "%s%s",
           CPU_COUNT(&both) == 0 ? "where they are: this process may not use the processors of "
           : place->binds        ? "on the processors of "
                                 : "where they are: this process may use no others than those of ",
           of);
}

static void leave(struct affinity_place *place, const char *why) {
  snprintf(place->why, sizeof place->why, "where they are: %s", why);
}

void affinity_choose(const struct affinity_node *nodes, size_t num_nodes, int node, const char *of,
                     const cpu_set_t *allowed, struct affinity_place *place) {
  char what[NEAR_WHY / 2];
  place->binds = false;
  place->cpus = *allowed;
  if (num_nodes < 2) {
    leave(place, "this host has one NUMA node");
    return;
  }
  for (size_t i = 0; i < num_nodes; i++) {
    if (node < 0 || nodes[i].node != node || CPU_COUNT(&nodes[i].cpus) == 0)
      continue;
    snprintf(what, sizeof what, "NUMA node %d, which is that of %s", node, of);
    narrow(&nodes[i].cpus, allowed, place, what);
    return;
  }
  snprintf(what, sizeof what, "the NUMA node of %s is not known, or has no processors", of);
  leave(place, what);
}

// --- sysfs ---

static bool read_line(char line[LINE_SIZE], const char *path) {
  FILE *file = fopen(path, "re");
  bool good = file && fgets(line, LINE_SIZE, file);
  if (file)
    fclose(file);
  return good;
}

static size_t read_nodes(const char *root, struct affinity_node nodes[AFFINITY_MAX_NODES]) {
  char path[PATH_SIZE], line[LINE_SIZE];
  size_t count = 0;
  snprintf(path, sizeof path, "%s/sys/devices/system/node", root);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && count < AFFINITY_MAX_NODES && (entry = readdir(folder));) {
    if (sscanf(entry->d_name, "node%d", &nodes[count].node) != 1)
      continue;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, nodes[count].node);
    count += read_line(line, path) && affinity_parse(line, &nodes[count].cpus);
  }
  if (folder)
    closedir(folder);
  return count;
}

static int read_node(const char *device) {
  char path[PATH_SIZE + 16], line[LINE_SIZE];
  snprintf(path, sizeof path, "%s/numa_node", device);
  return read_line(line, path) ? atoi(line) : -1;
}

// NICs that agree on their node so far.
struct nics {
  const char *wished; // names with commas between them; NULL: all
  int node;           // -1: none yet
  bool differ;
  char name[NAME_SIZE]; // the first
};

// Whether the list has the name; UCX puts a colon and a port behind.
static bool has_name(const char *list, const char *name) {
  size_t size = strlen(name);
  for (const char *item = list; *item;) {
    size_t length = strcspn(item, ",:");
    if (length == size && strncmp(item, name, size) == 0)
      return true;
    item += strcspn(item, ",");
    item += *item == ',';
  }
  return false;
}

static void add_nics(const char *root, const char *class, struct nics *nics) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/sys/class/%s", root, class);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= NAME_SIZE ||
        (nics->wished && !has_name(nics->wished, entry->d_name)))
      continue;
    snprintf(path, sizeof path, "%s/sys/class/%s/%s/device", root, class, entry->d_name);
    int node = read_node(path);
    if (node < 0)
      continue;
    nics->differ |= nics->node >= 0 && node != nics->node;
    if (nics->node < 0 || strcmp(entry->d_name, nics->name) < 0) // the system's order may change
      strcpy(nics->name, entry->d_name);
    nics->node = node;
  }
  if (folder)
    closedir(folder);
}

static const char *wished_nics(void) {
  static const char *const variables[] = {"WEFT_OFI_NICS", "UCX_NET_DEVICES", "WEFT_NICS", "WEFT_INTERFACE", NULL};
  for (const char *const *name = variables; *name; name++) {
    const char *value = getenv(*name);
    if (value && *value && *value != '^' && strcmp(value, "all") != 0)
      return value;
  }
  return NULL;
}

static void find_nics(const char *root, struct nics *nics) {
  *nics = (struct nics){.wished = wished_nics(), .node = -1};
  add_nics(root, "infiniband", nics);
  if (nics->node < 0) // a host with RDMA devices also has other NICs, for other purposes
    add_nics(root, "net", nics);
}

static void find_near(const char *root, const char *gpu, const cpu_set_t *allowed, struct affinity_place *place) {
  struct affinity_node nodes[AFFINITY_MAX_NODES];
  size_t num_nodes = read_nodes(root, nodes);
  char what[NAME_SIZE + 8], path[PATH_SIZE];
  if (gpu) {
    // CUDA writes an address in capitals.
    size_t size = (size_t)snprintf(what, sizeof what, "%s", gpu);
    for (size_t i = 0; i < size && i < sizeof what; i++)
      what[i] = (char)tolower((unsigned char)what[i]);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, what);
    snprintf(what, sizeof what, "the GPU %s", gpu);
    affinity_choose(nodes, num_nodes, read_node(path), what, allowed, place);
    return;
  }
  struct nics nics;
  find_nics(root, &nics);
  if (num_nodes > 1 && nics.differ) {
    leave(place, "the NICs are of several NUMA nodes");
    return;
  }
  snprintf(what, sizeof what, "%s", nics.node >= 0 ? nics.name : "any NIC");
  affinity_choose(nodes, num_nodes, nics.node, what, allowed, place);
}

bool affinity_asked(void) {
  const char *list = getenv("WEFT_CPUS");
  return list && *list;
}

void affinity_find(const char *root, const char *gpu, struct affinity_place *place) {
  cpu_set_t allowed, asked;
  const char *list = getenv("WEFT_CPUS");
  *place = (struct affinity_place){.binds = false};
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    leave(place, "there are more processors than can be represented");
    return;
  }
  place->cpus = allowed;
  if (!affinity_asked())
    find_near(root ? root : "", gpu, &allowed, place);
  else if (strcmp(list, "any") == 0)
    leave(place, "WEFT_CPUS=any");
  else if (affinity_parse(list, &asked) && CPU_COUNT(&asked) > 0)
    narrow(&asked, &allowed, place, "WEFT_CPUS");
  else
    leave(place, "WEFT_CPUS is not a list like 0-3,8");
}

int affinity_create(const struct affinity_place *place, pthread_t *thread, void *(*run)(void *), void *arg) {
  pthread_attr_t attributes;
  int error = -1;
  if (place && place->binds && pthread_attr_init(&attributes) == 0) {
    error = pthread_attr_setaffinity_np(&attributes, sizeof place->cpus, &place->cpus);
    if (error == 0)
      error = thread_create(thread, &attributes, run, arg);
    pthread_attr_destroy(&attributes);
  }
  if (place)
    log_debug("a thread runs %s", place->why);
  return error == 0 ? 0 : thread_create(thread, NULL, run, arg);
}
