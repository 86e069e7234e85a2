// The bounds that GPUs and their links report.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "limits/hardware/hardware.h"
#include "limits/hardware/nvml.h"

static void name_entry(struct limits_entry *entry, const char *what, const char *from, const char *to) {
  snprintf(entry->device, sizeof entry->device, "%s", from);
  snprintf(entry->other, sizeof entry->other, "%s", to);
  snprintf(entry->name, sizeof entry->name, "%s %s%s%s", what, from, *to ? " to " : "", to);
}

// A copy within the memory reads and writes it.
static int add_memory(const struct nvml_gpu *gpu, struct limits_table *table) {
  struct limits_entry entry = {.kind = LIMITS_GPU_MEMORY, .gbps = gpu->memory_gbps / 2};
  if (entry.gbps <= 0)
    return 0;
  name_entry(&entry, "gpu memory", gpu->address, "");
  snprintf(entry.detail, sizeof entry.detail,
           "half of the %.0f GB/s of its memory, for a copy reads and writes it: bus width and clock, as NVML says",
           gpu->memory_gbps);
  return limits_table_add(table, &entry);
}

static int add_pcie(const char *root, const char *address, struct limits_table *table) {
  struct limits_entry entry = {.kind = LIMITS_GPU_HOST};
  entry.gbps = limits_pcie_gbps(root, address, entry.detail, sizeof entry.detail);
  name_entry(&entry, "pcie", address, "");
  return entry.gbps > 0 ? limits_table_add(table, &entry) : 0;
}

// Through a switch all links of a GPU lead to each other GPU at the switch.
static uint32_t links_to(const struct nvml_gpu *from, const struct nvml_gpu *to) {
  uint32_t count = from->to_switch < to->to_switch ? from->to_switch : to->to_switch;
  for (uint32_t i = 0; i < from->num_links; i++)
    count += strcmp(from->links[i].address, to->address) == 0;
  return count;
}

// Without NVLink the bytes cross the PCIe links of both GPUs.
static int add_link(const struct nvml_gpu *from, const struct nvml_gpu *to, struct limits_table *table) {
  struct limits_entry entry = {.kind = LIMITS_GPU_LINK};
  uint32_t links = links_to(from, to);
  const struct limits_entry *own = limits_table_find(table, LIMITS_GPU_HOST, from->address, NULL);
  const struct limits_entry *other = limits_table_find(table, LIMITS_GPU_HOST, to->address, NULL);
  name_entry(&entry, "link", from->address, to->address);
  if (links > 0 && from->link_gbps > 0) {
    entry.gbps = links * from->link_gbps;
    snprintf(entry.detail, sizeof entry.detail, "NVLink: %u link%s of %g GB/s each, as NVML says", links,
             links == 1 ? "" : "s", from->link_gbps);
  } else if (links == 0 && from->links_known && to->links_known && own && other) {
    const struct limits_entry *less = own->gbps < other->gbps ? own : other;
    entry.gbps = less->gbps;
    snprintf(entry.detail, sizeof entry.detail, "no NVLink: %.230s", less->detail);
  }
  return entry.gbps > 0 ? limits_table_add(table, &entry) : 0;
}

int limits_describe_gpus(const struct limits_hardware *hardware, const char *library, struct limits_table *table) {
  struct nvml_gpu *gpus = calloc(NVML_MAX_GPUS, sizeof *gpus);
  if (!gpus)
    return fail(WEFT_ERR_NOMEM, "no memory for the bounds of this host's GPUs");
  uint32_t count = nvml_list(library, gpus);
  int rc = 0;
  for (size_t i = 0; i < hardware->choice->num_gpus && rc == 0; i++)
    rc = add_pcie(hardware->root, hardware->choice->gpus[i].address, table);
  for (uint32_t i = 0; i < count && rc == 0; i++) { // also those that hwloc cannot see, as in a container
    rc = add_memory(&gpus[i], table);
    if (rc == 0)
      rc = add_pcie(hardware->root, gpus[i].address, table);
  }
  for (uint32_t i = 0; i < count * count && rc == 0; i++)
    if (i / count != i % count)
      rc = add_link(&gpus[i / count], &gpus[i % count], table);
  free(gpus);
  return rc;
}
