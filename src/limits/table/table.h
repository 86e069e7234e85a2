// The bounds of a host as they are kept: a list of measured or described rates, each with the hardware that it belongs
// to.
#ifndef LIMITS_TABLE_TABLE_H
#define LIMITS_TABLE_TABLE_H

#include <jansson.h>

#include "limits/limits.h"

enum limits_kind {
  LIMITS_COPY,     // of host memory, by processors; `device` and `other` name NUMA nodes, or are ""
  LIMITS_LOOPBACK, // TCP within the host
  LIMITS_DISK_READ,
  LIMITS_DISK_WRITE, // `device`: the folder; `other`: the disk that it is on (limits_disk_key)
  LIMITS_GPU_MEMORY, // copies within a GPU's memory; `device`: its PCI address, here and below
  LIMITS_GPU_LINK,   // from GPU `device` to GPU `other`, by NVLink or PCIe
  LIMITS_GPU_HOST,   // between a GPU and host memory
  LIMITS_NIC,        // `device`: its name
};

enum { LIMITS_DEVICE = 128, LIMITS_MAX_ENTRIES = 4096 };

struct limits_entry {
  enum limits_kind kind;
  char name[LIMITS_NAME];
  char device[LIMITS_DEVICE], other[LIMITS_DEVICE];
  uint32_t processors; // COPY: processors that copied at the same time; LOOPBACK: connections
  uint64_t bytes;      // COPY: working set of all of them together
  double gbps;
  bool measured;
  char detail[LIMITS_DETAIL];
};

struct limits_table {
  uint32_t count;
  struct limits_entry *list;
};

// Adds an entry. If there is one of the same kind, devices, processors and bytes, it gets the new value instead, unless
// that would replace a measurement by a description. NOMEM.
int limits_table_add(struct limits_table *table, const struct limits_entry *entry);
// Removes all entries of a kind.
void limits_table_drop(struct limits_table *table, enum limits_kind kind);
void limits_table_free(struct limits_table *table);

// The first entry of that kind, device and other (NULL: any), or NULL. Measured entries have precedence over others.
const struct limits_entry *limits_table_find(const struct limits_table *table, enum limits_kind kind,
                                             const char *device, const char *other);

// The bound of copies by `processors` processors (0: unknown) with a working set of `bytes` (0: unknown), all together;
// NULL: not known. A measurement with fewer processors alone, or with a larger working set, is not a bound for more
// processors or a smaller set. If fewer processors were faster, their rate is the bound.
const struct limits_entry *limits_table_copy(const struct limits_table *table, uint32_t processors, uint64_t bytes);

const char *limits_kind_name(enum limits_kind kind);

// Convert the table to and from the list of a kept file. PROTOCOL: the error names the member that is wrong.
json_t *limits_table_to_json(const struct limits_table *table);
int limits_table_from_json(struct limits_table *table, const json_t *list);

#endif
