// The parts of this host that bound transfers, from sysfs and hwloc.
#ifndef LIMITS_HARDWARE_HARDWARE_H
#define LIMITS_HARDWARE_HARDWARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits/table/table.h"
#include "topology/choice/choice.h"

enum { HARDWARE_CACHES = 4, HARDWARE_LINE = 128 };

struct limits_hardware {
  char root[256];   // where sys/, proc/ and etc/ are; "" except in tests
  char machine[33]; // identifies the host without revealing its machine id; hexadecimal digits
  char cpu[HARDWARE_LINE];
  uint32_t processors; // that this process may use
  uint32_t nodes;      // NUMA
  uint64_t memory_bytes;
  struct {
    uint64_t bytes;               // 0: there is no such cache, or it is not known
    uint32_t shared;              // processors that share one
  } caches[HARDWARE_CACHES + 1];  // by level, data
  struct topology_choice *choice; // GPUs and NICs; never NULL once gathered
};

// `root` as above. NOMEM.
int limits_hardware_gather(struct limits_hardware *hardware, const char *root);
void limits_hardware_free(struct limits_hardware *hardware);

// Describes the hardware that kept measurements are valid for, as an object of texts and numbers; NULL: memory ran out.
json_t *limits_hardware_describe(const struct limits_hardware *hardware);
// Whether a kept description matches this hardware; if not, writes the difference to why[cap].
bool limits_hardware_is(const struct limits_hardware *hardware, const json_t *kept, char *why, size_t cap);

// --- the speeds that the hardware reports ---

// A PCIe link's payload rate, in 1e9 bytes a second in one direction. It is computed from the lanes in use and the rate
// that both the device and the port above it can reach, because an idle link runs slower. Negative: not known. Writes
// an explanation to detail[cap].
double limits_pcie_gbps(const char *root, const char *address, char *detail, size_t cap);

// Adds the NICs, and the memory if the firmware describes it. NOMEM.
int limits_describe_host(const struct limits_hardware *hardware, struct limits_table *table);
// Adds the GPUs: their memory, PCIe and NVLink, with the help of NVML. `library`: the file of NVML (NULL: the
// driver's). NOMEM.
int limits_describe_gpus(const struct limits_hardware *hardware, const char *library, struct limits_table *table);

// Finds the device of a file's file system: "259:1" as in sysfs, valid until the host restarts. False: there is no such
// file or folder.
bool limits_disk_of(const char *path, char device[LIMITS_DEVICE], bool *in_memory);
// Makes a name of the disk of that device for a kept bound. The kernel assigns device numbers anew at each start, so
// the name is made of properties that stay: the identity of the disk in sysfs (wwid, serial number or UUID), its model
// and size, and the partition. They are hashed, because people pass the documents on. If sysfs has no identity, as for
// overlays, loop devices and virtio disks without a serial number, the name is valid until the host restarts. NOMEM,
// SYSTEM.
int limits_disk_key(const char *root, const char *device, char key[LIMITS_DEVICE]);
// The payload rate of the PCIe link of that device; negative: not known. Writes an explanation, or why it is not known,
// to detail[cap].
double limits_disk_gbps(const char *root, const char *device, char *detail, size_t cap);

#endif
