// Counts processors: the affinity of the process, and the limits of its control groups (cpu.max, cpu.cfs_quota_us).
#include "base/processors.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, MOST_PROCESSORS = 1 << 16 };

// A set of `most` processors, which may be more than a cpu_set_t itself holds.
struct set {
  cpu_set_t *cpus;
  size_t most;
};

// The kernel refuses a set that has no room for all processors of the host. NULL: no memory, or no answer.
static struct set allowed(void) {
  for (size_t most = CPU_SETSIZE; most <= MOST_PROCESSORS; most *= 2) {
    cpu_set_t *cpus = CPU_ALLOC(most);
    if (cpus && sched_getaffinity(0, CPU_ALLOC_SIZE(most), cpus) == 0)
      return (struct set){cpus, most};
    CPU_FREE(cpus);
  }
  return (struct set){NULL, 0};
}

static bool has(const struct set *set, size_t cpu) {
  return cpu < set->most && CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(set->most), set->cpus);
}

static void write_list(const struct set *set, char *list, size_t cap) {
  size_t used = 0;
  list[0] = '\0';
  for (size_t first = 0; first < set->most; first++) {
    size_t last = first;
    if (!has(set, first))
      continue;
    while (has(set, last + 1))
      last++;
    int size = snprintf(list + used, cap - used, last > first ? "%s%zu-%zu" : "%s%zu", used ? "," : "", first, last);
    used += (size_t)size < cap - used ? (size_t)size : cap - used - 1;
    first = last;
  }
}

static bool read_line(const char *path, char *line, int cap) {
  FILE *file = fopen(path, "re");
  bool read = file && fgets(line, cap, file);
  if (file)
    fclose(file);
  return read;
}

// The limit of a control group, in processors; INFINITY: no limit.
static double group_limit(const char *directory) {
  char path[PATH_SIZE + 32], line[128], other[128];
  double quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", directory); // of version 2
  if (read_line(path, line, sizeof line))
    return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory); // of version 1, where -1 is no limit
  bool read = read_line(path, line, sizeof line);
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
  if (!read || !read_line(path, other, sizeof other))
    return INFINITY;
  quota = strtod(line, NULL);
  period = strtod(other, NULL);
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

// The least that a group or one above it grants. A container may see its groups at another path than the host's.
static double path_limit(const char *mount, const char *group) {
  char path[PATH_SIZE];
  int size = snprintf(path, sizeof path, "%s%s", mount, group);
  double least = INFINITY;
  if (size < 0 || (size_t)size >= sizeof path)
    return least;
  for (size_t top = strlen(mount);;) {
    double limit = group_limit(path);
    least = limit < least ? limit : least;
    char *slash = strrchr(path + top, '/');
    if (!slash)
      return least;
    *slash = '\0';
  }
}

// Whether a comma-separated list of controllers has "cpu".
static bool has_cpu(const char *controllers, size_t size) {
  for (size_t at = 0, length; at <= size; at += length + 1) {
    for (length = 0; at + length < size && controllers[at + length] != ',';)
      length++;
    if (length == 3 && memcmp(controllers + at, "cpu", 3) == 0)
      return true;
  }
  return false;
}

static double groups_limit(const char *root) {
  char path[PATH_SIZE], line[PATH_SIZE], mount[PATH_SIZE];
  double least = INFINITY;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file)) { // NUMBER:CONTROLLERS:PATH, version 2 without controllers
    const char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    group[strcspn(group, "\n")] = '\0';
    bool second = group == controllers + 1;
    if (!second && !has_cpu(controllers + 1, (size_t)(group - controllers - 1)))
      continue;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, second ? "" : "/cpu");
    double limit = path_limit(mount, group + 1);
    least = limit < least ? limit : least;
  }
  if (file)
    fclose(file);
  return least;
}

unsigned processors_usable(const char *root, char *list, size_t cap) {
  struct set set = allowed();
  unsigned count = set.cpus ? (unsigned)CPU_COUNT_S(CPU_ALLOC_SIZE(set.most), set.cpus) : 1;
  write_list(&set, list, cap);
  CPU_FREE(set.cpus);
  double limit = groups_limit(root ? root : "");
  if (limit < count)
    count = (unsigned)limit + (limit > (unsigned)limit);
  return count > 0 ? count : 1;
}
