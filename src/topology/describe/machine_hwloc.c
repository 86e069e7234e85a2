// Processors, NUMA nodes, caches and devices, by hwloc.
#include "topology/describe/machine.h"

#include "base/log.h"
#include "topology/read/hwloc_load.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

// Appends or drops: both array and value may be NULL when memory ran out.
static int append(json_t *array, json_t *value) {
  return json_array_append_new(array, value);
}

static json_t *describe_numa_nodes(hwloc_topology_t topology) {
  json_t *list = json_array();
  bool failed = !list;
  hwloc_obj_t node = NULL;
  while (!failed && (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
    char *cpus = NULL;
    if (hwloc_bitmap_list_asprintf(&cpus, node->cpuset) < 0)
      cpus = NULL;
    failed = append(list, json_pack("{s:i, s:I, s:s*}", "node", (int)node->os_index, "memory_bytes",
                                    (json_int_t)node->attr->numanode.local_memory, "cpus", cpus));
    free(cpus);
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

static json_t *describe_caches(hwloc_topology_t topology) {
  static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
  json_t *list = json_array();
  bool failed = !list;
  for (size_t i = 0; !failed && i < sizeof types / sizeof types[0]; i++) {
    hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, types[i], NULL);
    if (cache)
      failed =
          append(list, json_pack("{s:i, s:I, s:i}", "level", (int)i + 1, "bytes", (json_int_t)cache->attr->cache.size,
                                 "count", hwloc_get_nbobjs_by_type(topology, types[i])));
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

// The kind of device for a PCI class (base class and subclass); NULL: it is not listed.
static const char *kind_of_class(unsigned class_id) {
  switch (class_id >> 8) {
  case 0x01:
    return "storage";
  case 0x02:
    return class_id == 0x0207 ? "infiniband" : "network";
  case 0x03:
    return "gpu";
  case 0x0b:
    return class_id == 0x0b40 ? "coprocessor" : NULL;
  case 0x12:
    return "accelerator";
  default:
    return class_id == 0x0c06 ? "infiniband" : NULL;
  }
}

// The names that the system has for a device: eth0, mlx5_0, nvme0n1, ...
static json_t *names_of(hwloc_obj_t device) {
  json_t *names = json_array();
  for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->name)
      append(names, json_string(child->name));
  return names;
}

static json_t *describe_device(hwloc_topology_t topology, hwloc_obj_t device, const char *kind) {
  const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
  char address[32], vendor[8], model[8];
  snprintf(address, sizeof address, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->dev, pci->func);
  snprintf(vendor, sizeof vendor, "%04x", pci->vendor_id);
  snprintf(model, sizeof model, "%04x", pci->device_id);
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  int node = near && near->nodeset ? hwloc_bitmap_first(near->nodeset) : -1;
  bool one_node = node >= 0 && hwloc_bitmap_weight(near->nodeset) == 1;
  return json_pack("{s:s, s:s, s:s, s:s, s:s*, s:o*, s:o}", "kind", kind, "address", address, "vendor", vendor,
                   "device", model, "name", hwloc_obj_get_info_by_name(device, "PCIDevice"), "numa_node",
                   one_node ? json_integer(node) : NULL, "names", names_of(device));
}

static json_t *describe_devices(hwloc_topology_t topology) {
  json_t *list = json_array();
  bool failed = !list;
  hwloc_obj_t device = NULL;
  while (!failed && (device = hwloc_get_next_pcidev(topology, device))) {
    const char *kind = kind_of_class(device->attr->pcidev.class_id);
    if (kind)
      failed = append(list, describe_device(topology, device, kind));
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

static int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? count : 0;
}

static int describe(json_t *out, hwloc_topology_t topology) {
  json_t *part = json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o}", "source", "hwloc", "packages",
                           count_of(topology, HWLOC_OBJ_PACKAGE), "cores", count_of(topology, HWLOC_OBJ_CORE),
                           "threads", count_of(topology, HWLOC_OBJ_PU), "numa_nodes", describe_numa_nodes(topology),
                           "caches", describe_caches(topology), "devices", describe_devices(topology));
  int err = part ? json_object_update(out, part) : -1;
  json_decref(part);
  // For its own host the kernel knows the memory better: that of a node may not include memory that was added later.
  if (!err && !hwloc_topology_is_thissystem(topology))
    err =
        json_object_set_new(out, "memory_bytes", json_integer((json_int_t)hwloc_get_root_obj(topology)->total_memory));
  return err;
}

int topology_add_machine(json_t *out) {
  hwloc_topology_t topology;
  int err = topology_hwloc_load(&topology);
  if (err == WEFT_ERR_NOMEM)
    return -1;
  if (err) {
    log_warn("%s", weft_last_error());
    return 0;
  }
  err = describe(out, topology);
  hwloc_topology_destroy(topology);
  return err;
}
