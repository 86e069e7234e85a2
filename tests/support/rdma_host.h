// Simulates a host with RDMA devices: a recorded machine for hwloc, and a folder with those parts of /sys and /dev that
// show which devices a process may open.
#ifndef SUPPORT_RDMA_HOST_H
#define SUPPORT_RDMA_HOST_H

#include <stddef.h>

#include "topology/choice/choice.h"

// The machine of tests/topology/host_NAME.xml, all of whose devices may be opened; with `most` not 0, the first of
// them. The GPUs of the choice, in order, are those of the fake plug-in for GPUs (FAKE_PCI). cmocka asserts.
struct topology_choice *rdma_host_make(const char *name, size_t most);
// Frees the choice, too.
void rdma_host_remove(struct topology_choice *host);

// Makes one GPU the only one that the fake plug-in shows, or all; -1: all.
void rdma_host_show(const struct topology_choice *choice, int gpu);

#endif
