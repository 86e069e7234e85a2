// Simulates a host with RDMA devices: a recorded machine for hwloc, and a folder with those parts of /sys and /dev that
// show which devices a process may open.
#ifndef SUPPORT_RDMA_HOST_H
#define SUPPORT_RDMA_HOST_H

#include <stddef.h>

#include "topology/choice/choice.h"

// Makes the machine of tests/topology/host_NAME.xml. All its devices may be opened, or the first `most` if that is not
// 0. The GPUs of the choice, in order, are the GPUs of the fake plug-in (FAKE_PCI). Fails the test on an error.
struct topology_choice *rdma_host_make(const char *name, size_t most);
// Also frees the choice.
void rdma_host_remove(struct topology_choice *host);

// Makes the fake plug-in show only this GPU; -1: all.
void rdma_host_show(const struct topology_choice *choice, int gpu);

#endif
