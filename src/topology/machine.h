// The part of the description that hwloc knows best; machine_hwloc.c or machine_sysfs.c, whichever the build can have.
#ifndef TOPOLOGY_MACHINE_H
#define TOPOLOGY_MACHINE_H

#include <jansson.h>

// Adds source, threads, memory_bytes and whatever more there is to `out`; -1 when memory ran out.
int topology_add_machine(json_t *out);

// Adds interfaces to `out`; -1 when memory ran out.
int topology_add_interfaces(json_t *out);

#endif
