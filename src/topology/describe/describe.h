// Describes this host: processors, memory, NUMA nodes, caches, devices, network interfaces.
#ifndef TOPOLOGY_DESCRIBE_DESCRIBE_H
#define TOPOLOGY_DESCRIBE_DESCRIBE_H

#include <jansson.h>

// Describes the host as it is now. The caller owns the object; NULL: memory ran out. Facts that the host does not
// report are left out. [any]
//
// host, boot_id, kernel, cpu_model: strings. source: "hwloc" or "sysfs". threads: those on which this process may run.
// Only with hwloc: packages, cores, numa_nodes [{node, memory_bytes, cpus}], caches [{level, bytes, count}], devices
// [{kind, address, vendor, device, name, numa_node, names}]. memory_bytes: of the whole host. interfaces [{name, state,
// mtu, mbit_s}]: network interfaces, mtu in bytes, the link's speed in 1e6 bits a second.
//
// HWLOC_XMLFILE and HWLOC_SYNTHETIC describe another machine in this one's place, as in hwloc's own tools.
json_t *topology_describe(void);

#endif
