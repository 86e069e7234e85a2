// What this host is made of, as far as it bounds transfers, out of sysfs and hwloc.
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
  char root[256];   // where sys/, proc/ and etc/ are: "" but in tests
  char machine[33]; // names the host without giving its machine id away: hexadecimal digits
  char cpu[HARDWARE_LINE];
  uint32_t processors; // that this process may use
  uint32_t nodes;      // NUMA
  uint64_t memory_bytes;
  struct {
    uint64_t bytes;               // 0: there is none, or nobody knows
    uint32_t shared;              // processors that share one
  } caches[HARDWARE_CACHES + 1];  // by level, data
  struct topology_choice *choice; // GPUs and NICs; never NULL once gathered
};

// `root` as above. NOMEM.
int limits_hardware_gather(struct limits_hardware *hardware, const char *root);
void limits_hardware_free(struct limits_hardware *hardware);

// What a kept measurement holds for: an object of texts and numbers; NULL: memory ran out.
json_t *limits_hardware_describe(const struct limits_hardware *hardware);
// Whether a kept description is that of this hardware; else what differs, into why[cap].
bool limits_hardware_is(const struct limits_hardware *hardware, const json_t *kept, char *why, size_t cap);

// --- what the hardware says of its own speed ---

// A PCIe link's payload, 1e9 bytes a second in one direction, for as many lanes as are in use and the rate that the
// device and the port above it can reach (an idle link runs slower); negative: nobody knows. Into detail[cap]: how.
double limits_pcie_gbps(const char *root, const char *address, char *detail, size_t cap);

// Adds NICs, and memory where the firmware describes it. NOMEM.
int limits_describe_host(const struct limits_hardware *hardware, struct limits_table *table);
// Adds GPUs: their memory, PCIe and NVLink, with the help of NVML, of which `library` is the file (NULL: the driver's).
// NOMEM.
int limits_describe_gpus(const struct limits_hardware *hardware, const char *library, struct limits_table *table);

// The device of a file's file system, "259:1" as sysfs writes it until the host is started again; false: there is no
// such file or folder.
bool limits_disk_of(const char *path, char device[LIMITS_DEVICE], bool *in_memory);
// Names the disk of that device for a kept bound. Numbers of devices are given anew at each start, so the name is made
// of what stays: the identity that sysfs has of the disk (wwid, serial number or UUID) with its model and size, and
// which partition of it; hashed, since documents are passed on. Where sysfs has none, as of overlays, loop devices and
// virtio disks without a serial number, it holds until the host is started again. NOMEM, SYSTEM.
int limits_disk_key(const char *root, const char *device, char key[LIMITS_DEVICE]);
// What the PCIe link of that device carries; negative: nobody knows. Into detail[cap]: how, or why not.
double limits_disk_gbps(const char *root, const char *device, char *detail, size_t cap);

#endif
