// Which RDMA devices the transports of this process use if the user has not chosen any: those that serve its GPUs, or,
// if it has none, those at the NUMA node on whose processors it runs. The choice needs hwloc, so a plug-in,
// libweft_topology, makes it. The plug-in is loaded only if there is more than one device to choose from.
#ifndef TOPOLOGY_SERVED_SERVE_H
#define TOPOLOGY_SERVED_SERVE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

enum {
  TOPOLOGY_SERVE_ABI = 1, // of this page
  TOPOLOGY_SERVED = 1024, // bytes of a list of names
  TOPOLOGY_SERVED_WHY = 400,
};

struct topology_served {
  char nics[TOPOLOGY_SERVED];    // RDMA devices with commas between them, the foremost first; "": no wish
  char why[TOPOLOGY_SERVED_WHY]; // in words
};

// Whether this process may open more than one RDMA device, by sysfs and /dev/infiniband. Takes microseconds if there
// are none. [any]
bool topology_has_choice(void);

// Finds the devices for the GPUs at these PCI addresses, the most important GPU first; without GPUs, for the processors
// that the calling thread may use. Each process examines the host once. UNSUPPORTED: the plug-in is missing; INVALID:
// WEFT_NICS names a device that does not exist; NOMEM. [any]
int topology_serve(const char *const *gpus, size_t num_gpus, struct topology_served *served);

// For tests: sys/ and dev/ are looked for in this folder. Call it before the functions above; `root` is not copied.
void topology_serve_root(const char *root);

// --- the plug-in ---

#define TOPOLOGY_PLUGIN_SYMBOL "weft_topology_plugin"

struct topology_ask {
  const char *const *gpus; // [num_gpus]
  size_t num_gpus;
  const char *openable; // RDMA devices, with commas between them
  const char *root;     // of struct topology_choice_options
  cpu_set_t allowed;
};

struct topology_plugin {
  uint32_t abi;
  void (*share)(fail_detail_fn *detail); // called first: failures inside are then written where the library reads them
  int (*serve)(const struct topology_ask *ask, struct topology_served *served);
};

#endif
