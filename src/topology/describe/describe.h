// What this host is: processors, memory, NUMA nodes, caches, devices, network interfaces.
#ifndef TOPOLOGY_DESCRIBE_DESCRIBE_H
#define TOPOLOGY_DESCRIBE_DESCRIBE_H

#include <jansson.h>

// Describes the host as it is now, into an object that is the caller's; NULL when memory ran out. What the host does
// not tell is left out. Any thread.
//
// host, boot_id, kernel, cpu_model: strings. source: "hwloc" or "sysfs". threads: those that this process may
// run on, and with hwloc packages, cores and numa_nodes [{node, memory_bytes, cpus}], caches [{level, bytes, count}],
// devices
// [{kind, address, vendor, device, name, numa_node, names}]. memory_bytes: of the whole host. interfaces [{name, state,
// mtu, mbit_s}]: network interfaces, mtu in bytes, the link's speed in 1e6 bits a second.
//
// HWLOC_XMLFILE and HWLOC_SYNTHETIC describe another machine in this one's place, as in hwloc's own tools.
json_t *topology_describe(void);

#endif
