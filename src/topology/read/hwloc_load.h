// One way to load hwloc's topology.
#ifndef TOPOLOGY_READ_HWLOC_LOAD_H
#define TOPOLOGY_READ_HWLOC_LOAD_H

#include <hwloc.h>

// Loads the topology of this host, with its common PCI devices; to be destroyed. NOMEM; SYSTEM when hwloc cannot
// describe this host.
int topology_hwloc_load(hwloc_topology_t *topology);

#endif
