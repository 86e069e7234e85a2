// The bounds of a host as they are kept: a list of what was measured or described, each with what it is of.
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
  uint32_t processors; // COPY: that copied at the same time; LOOPBACK: connections
  uint64_t bytes;      // COPY: working set of all of them together
  double gbps;
  bool measured;
  char detail[LIMITS_DETAIL];
};

struct limits_table {
  uint32_t count;
  struct limits_entry *list;
};

// Adds an entry, or gives the one of the same kind, devices, processors and bytes its new value where that is a
// measurement or the old one was none. NOMEM.
int limits_table_add(struct limits_table *table, const struct limits_entry *entry);
// Takes away all of a kind.
void limits_table_drop(struct limits_table *table, enum limits_kind kind);
void limits_table_free(struct limits_table *table);

// The first of that kind, device and other (NULL: any), one that was measured before all that were not; or NULL.
const struct limits_entry *limits_table_find(const struct limits_table *table, enum limits_kind kind,
                                             const char *device, const char *other);

// The bound of copies by so many processors (0: unknown) of so large a working set (0: unknown), all together; NULL:
// nobody knows. What was measured for fewer processors or larger sets does not bound what has more or smaller ones.
const struct limits_entry *limits_table_copy(const struct limits_table *table, uint32_t processors, uint64_t bytes);

const char *limits_kind_name(enum limits_kind kind);

// To and from the list of a kept file. PROTOCOL names the member that is wrong.
json_t *limits_table_to_json(const struct limits_table *table);
int limits_table_from_json(struct limits_table *table, const json_t *list);

#endif
