// Chooses the copies to measure: sizes by the caches, numbers of processors, pairs of NUMA nodes.
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/affinity.h"
#include "limits/hardware/sysfs.h"
#include "limits/measured/measured.h"

enum { MOST_CPUS = 1024, NO_L1 = 32 << 10, NO_L2 = 512 << 10, NO_L3 = 8 << 20, BEYOND = 4 };

// --- processors ---

// Whether the processor is the lowest of those that share its core.
static bool leads_core(const struct limits_hardware *hardware, int cpu) {
  char line[SYSFS_LINE];
  return !sysfs_line(line, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", hardware->root, cpu) ||
         atoi(line) == cpu;
}

uint32_t limits_list_cpus(const struct limits_hardware *hardware, int *cpus, uint32_t cap) {
  cpu_set_t set;
  uint32_t count = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    cpus[0] = 0;
    return 1;
  }
  for (int leads = 1; leads >= 0; leads--)
    for (int cpu = 0; cpu < CPU_SETSIZE && count < cap; cpu++)
      if (CPU_ISSET(cpu, &set) && leads_core(hardware, cpu) == leads)
        cpus[count++] = cpu;
  // Control groups may grant less processor time; more threads would then only take turns.
  return count < hardware->processors ? count : hardware->processors;
}

// Chooses `count` of `total` processors evenly, so that all nodes take part.
static void spread(const int *cpus, uint32_t total, uint32_t count, int *out) {
  for (uint32_t i = 0; i < count; i++)
    out[i] = cpus[(uint64_t)i * total / count];
}

// --- sizes ---

struct size_class {
  const char *name;
  uint64_t bytes; // working set of one processor; 0: not measured
};

static uint64_t or (uint64_t bytes, uint64_t otherwise) {
  return bytes > 0 ? bytes : otherwise;
}

static uint64_t available(const char *root) {
  char path[SYSFS_PATH], line[128];
  unsigned long long kib = 0;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "re");
  while (file && kib == 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
      kib = 0;
  if (file)
    fclose(file);
  return (uint64_t)kib * 1024;
}

// The sizes: half of a cache, so that the set stays in it; for the third cache little more than the second, since a
// virtual machine may have less of it than it reports; and several times the last cache. A shared cache is divided
// among the processors that copy.
static void choose_sizes(const struct limits_hardware *hardware, uint32_t count, struct size_class sizes[4]) {
  uint64_t l1 = or (hardware->caches[1].bytes, NO_L1), l2 = or (hardware->caches[2].bytes, NO_L2);
  uint64_t last = or (or (hardware->caches[4].bytes, hardware->caches[3].bytes), l2 > NO_L3 ? l2 : NO_L3);
  uint32_t shared = hardware->caches[3].shared > 0 ? hardware->caches[3].shared : 1;
  uint64_t l3 = hardware->caches[3].bytes * ((count + shared - 1) / shared) / 2 / count;
  uint64_t whole = BEYOND * last * ((count + shared - 1) / shared), most = available(hardware->root) / 4;
  uint64_t memory = (whole < most ? whole : most) / count;
  sizes[0] = (struct size_class){"L1", l1 / 2};
  sizes[1] = (struct size_class){"L2", l2 / 2};
  sizes[2] = (struct size_class){"L3", l3 < 2 * l2 ? 0 : l3 < 4 * l2 ? l3 : 4 * l2};
  sizes[3] = (struct size_class){"host", memory > l2 ? memory : 2 * l2};
}

// --- the measurements ---

// All processors together can reach the rate of one processor within its own caches times their number, even if a busy
// host prevented that during the measurement.
static double scaled_rate(const struct limits *limits, uint64_t bytes, uint32_t count) {
  if (bytes > limits->hardware.caches[2].bytes)
    return 0;
  for (uint32_t i = 0; i < limits->table.count; i++) {
    const struct limits_entry *one = &limits->table.list[i];
    if (one->kind == LIMITS_COPY && one->processors == 1 && one->bytes == bytes)
      return one->gbps * count;
  }
  return 0;
}

static int measure_one(const struct limits_try *one, const int *cpus, uint32_t count, const struct size_class *size) {
  struct limits_entry entry = {
      .kind = LIMITS_COPY, .processors = count, .bytes = size->bytes * count, .measured = true};
  struct limits_copiers copiers = {.cpus = cpus, .count = count, .bytes = size->bytes, .source_cpu = -1};
  int rc = limits_copy_rate(one, &copiers, &entry.gbps);
  if (rc != 0)
    return rc;
  double scaled = scaled_rate(one->limits, size->bytes, count);
  entry.gbps = scaled > entry.gbps ? scaled : entry.gbps;
  snprintf(entry.name, sizeof entry.name, "%s copy by %u", size->name, count);
  snprintf(entry.detail, sizeof entry.detail,
           "%u processor%s, source and destination of each together %" PRIu64 " KiB; the best of the ways to copy",
           count, count == 1 ? "" : "s", size->bytes >> 10);
  return limits_table_add(&one->limits->table, &entry);
}

static int measure_count(const struct limits_try *one, const int *cpus, uint32_t total, uint32_t count) {
  int chosen[MOST_CPUS];
  struct size_class sizes[4];
  int rc = 0;
  spread(cpus, total, count, chosen);
  choose_sizes(&one->limits->hardware, count, sizes);
  for (int i = 0; i < 4 && rc == 0; i++)
    if (sizes[i].bytes > 0)
      rc = measure_one(one, chosen, count, &sizes[i]);
  return rc;
}

// --- NUMA nodes ---

// Of those processors, the ones of a node.
static uint32_t of_node(const struct limits_hardware *hardware, uint32_t node, const int *cpus, uint32_t total,
                        int *out) {
  char line[SYSFS_LINE];
  cpu_set_t set;
  uint32_t count = 0;
  if (!sysfs_line(line, "%s/sys/devices/system/node/node%u/cpulist", hardware->root, node) ||
      !affinity_parse(line, &set))
    return 0;
  for (uint32_t i = 0; i < total; i++)
    if (CPU_ISSET(cpus[i], &set))
      out[count++] = cpus[i];
  return count;
}

static int measure_pair(const struct limits_try *one, const int *cpus, uint32_t total, uint32_t from, uint32_t to) {
  const struct limits_hardware *hardware = &one->limits->hardware;
  struct limits_entry entry = {.kind = LIMITS_COPY, .measured = true};
  struct size_class sizes[4];
  int readers[MOST_CPUS], sources[MOST_CPUS];
  uint32_t count = of_node(hardware, to, cpus, total, readers);
  if (count == 0 || of_node(hardware, from, cpus, total, sources) == 0)
    return 0;
  choose_sizes(hardware, count, sizes);
  struct limits_copiers copiers = {.cpus = readers, .count = count, .bytes = sizes[3].bytes, .source_cpu = sources[0]};
  int rc = limits_copy_rate(one, &copiers, &entry.gbps);
  if (rc != 0)
    return rc;
  entry.processors = count;
  entry.bytes = copiers.bytes * count;
  snprintf(entry.device, sizeof entry.device, "node %u", from);
  snprintf(entry.other, sizeof entry.other, "node %u", to);
  snprintf(entry.name, sizeof entry.name, "host copy node %u to %u", from, to);
  snprintf(entry.detail, sizeof entry.detail, "%u processors of node %u copied from memory of node %u to their own",
           count, to, from);
  return limits_table_add(&one->limits->table, &entry);
}

int limits_measure_copies(const struct limits_try *one) {
  const struct limits_hardware *hardware = &one->limits->hardware;
  int cpus[MOST_CPUS], rc = 0;
  uint32_t total = limits_list_cpus(hardware, cpus, MOST_CPUS), nodes = hardware->nodes;
  for (uint32_t count = 1; count < total && rc == 0; count *= 2)
    rc = measure_count(one, cpus, total, count);
  if (rc == 0)
    rc = measure_count(one, cpus, total, total);
  for (uint32_t i = 0; i < nodes * nodes && nodes > 1 && nodes <= AFFINITY_MAX_NODES && rc == 0; i++)
    rc = measure_pair(one, cpus, total, i / nodes, i % nodes);
  return rc;
}
