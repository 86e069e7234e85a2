// Loads hwloc's description of this host, or of a recorded one.
#include "topology/read/hwloc_load.h"

#include "base/fail.h"

#include <errno.h>

int topology_hwloc_load(hwloc_topology_t *out) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0)
    return fail(WEFT_ERR_NOMEM, "no memory for hwloc's topology");
  // These plugins talk to a display server or to GPU drivers, which takes long and adds nothing to what PCI shows;
  // "pci" leaks memory, and beyond sysfs it knows only the models' names.
  static const char *const unwanted[] = {"gl", "opencl", "cuda", "nvml", "rsmi", "levelzero", "pci"};
  for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(topology) != 0) {
    int error = errno;
    hwloc_topology_destroy(topology);
    return fail_errno(error, "hwloc cannot describe this host");
  }
  *out = topology;
  return 0;
}
