// The bounds that NICs and the firmware report.
#include <stdio.h>
#include <string.h>

#include "limits/hardware/hardware.h"
#include "limits/hardware/sysfs.h"

#define GB_S_OF_MBIT(mbit) ((double)(mbit) / 8000)

static int add_nic(const struct topology_nic *nic, const char *root, struct limits_table *table) {
  struct limits_entry entry = {.kind = LIMITS_NIC, .gbps = GB_S_OF_MBIT(nic->mbit_s)};
  const char *name = topology_nic_name(nic);
  char slot[LIMITS_DETAIL];
  double pcie = limits_pcie_gbps(root, nic->address, slot, sizeof slot);
  if (nic->mbit_s == 0 || nic->link == TOPOLOGY_LINK_DOWN)
    return 0;
  snprintf(entry.name, sizeof entry.name, "nic %s", name);
  snprintf(entry.device, sizeof entry.device, "%s", name);
  if (pcie > 0 && pcie < entry.gbps) {
    entry.gbps = pcie;
    snprintf(entry.detail, sizeof entry.detail, "a link of %g Gbit/s behind %.200s", nic->mbit_s / 1e3, slot);
  } else {
    snprintf(entry.detail, sizeof entry.detail, "a link of %g Gbit/s, as sysfs says", nic->mbit_s / 1e3);
  }
  return limits_table_add(table, &entry);
}

// The firmware's table of memory (ACPI HMAT) has the read and write rates of the nearest processors in MiB/s. A copy
// reads and writes at the same time. If one node is missing, the sum is no bound, so there is none.
static double memory_gbps(const struct limits_hardware *hardware) {
  double sum = 0;
  for (uint32_t node = 0; node < hardware->nodes; node++) {
    double rate[2] = {0};
    for (int way = 0; way < 2; way++)
      rate[way] = sysfs_number("%s/sys/devices/system/node/node%u/access0/initiators/%s_bandwidth", hardware->root,
                               node, way ? "write" : "read");
    double least = rate[0] < rate[1] ? rate[0] : rate[1];
    if (least <= 0)
      return 0;
    sum += least * 1048576 / 1e9;
  }
  return sum;
}

static int add_memory(const struct limits_hardware *hardware, struct limits_table *table) {
  struct limits_entry entry = {.kind = LIMITS_COPY, .name = "host copy", .gbps = memory_gbps(hardware)};
  if (entry.gbps <= 0)
    return 0;
  for (int level = 1; level <= HARDWARE_CACHES;
       level++) // smaller sets are in the caches, which the firmware does not describe
    entry.bytes = hardware->caches[level].bytes > entry.bytes ? hardware->caches[level].bytes : entry.bytes;
  entry.bytes *= hardware->nodes;
  entry.processors = hardware->processors;
  snprintf(entry.detail, sizeof entry.detail,
           "the lesser of what %u NUMA node%s read%s and write%s, as the firmware's HMAT says", hardware->nodes,
           hardware->nodes == 1 ? "" : "s", hardware->nodes == 1 ? "s" : "", hardware->nodes == 1 ? "s" : "");
  return limits_table_add(table, &entry);
}

int limits_describe_host(const struct limits_hardware *hardware, struct limits_table *table) {
  int rc = add_memory(hardware, table);
  for (size_t i = 0; i < hardware->choice->num_nics && rc == 0; i++)
    rc = add_nic(&hardware->choice->nics[i], hardware->root, table);
  return rc;
}
