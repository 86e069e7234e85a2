// The parts of the description.
#ifndef TOPOLOGY_DESCRIBE_MACHINE_H
#define TOPOLOGY_DESCRIBE_MACHINE_H

#include <jansson.h>

// Adds to `out` what hwloc knows, in place of what is there; nothing in a build without hwloc, or where hwloc cannot
// read the host. -1 when memory ran out.
int topology_add_machine(json_t *out);

// Adds interfaces to `out`; -1 when memory ran out.
int topology_add_interfaces(json_t *out);

#endif
