// GPUs, NICs and their distances, from hwloc.
#include "topology/choice/parts.h"

#include "base/fail.h"
#include "base/log.h"
#include "topology/read/hwloc_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de, GBYTE_MBITS = 8000 };

// A display of the board's own controller is no GPU to compute on.
static bool is_gpu(hwloc_obj_t device) {
  return device->attr->pcidev.class_id >> 8 == 0x03 && device->attr->pcidev.vendor_id == NVIDIA;
}

static hwloc_obj_t named_child(hwloc_obj_t device, hwloc_obj_osdev_type_t type) {
  hwloc_obj_t found = NULL;
  for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == type && child->name)
      if (!found || strcmp(child->name, found->name) < 0) // the system's order may change
        found = child;
  return found;
}

// A device without a driver, such as a virtual function that is reserved for a guest, does not count as a NIC.
static bool is_nic(hwloc_obj_t device) {
  unsigned class_id = device->attr->pcidev.class_id;
  return (class_id >> 8 == 0x02 || class_id == 0x0c06) &&
         (named_child(device, HWLOC_OBJ_OSDEV_OPENFABRICS) || named_child(device, HWLOC_OBJ_OSDEV_NETWORK));
}

typedef bool (*kind)(hwloc_obj_t);

static int compare_addresses(const void *left, const void *right) {
  const struct hwloc_pcidev_attr_s *a = &(*(const hwloc_obj_t *)left)->attr->pcidev;
  const struct hwloc_pcidev_attr_s *b = &(*(const hwloc_obj_t *)right)->attr->pcidev;
  uint64_t place_a = (uint64_t)a->domain << 24 | (uint64_t)a->bus << 16 | (uint64_t)a->dev << 8 | a->func;
  uint64_t place_b = (uint64_t)b->domain << 24 | (uint64_t)b->bus << 16 | (uint64_t)b->dev << 8 | b->func;
  return (place_a > place_b) - (place_a < place_b);
}

// The devices of a kind, by address; the caller's, NULL when memory ran out.
static hwloc_obj_t *list_devices(hwloc_topology_t topology, kind is, size_t *count) {
  size_t capacity = 0;
  for (hwloc_obj_t at = NULL; (at = hwloc_get_next_pcidev(topology, at));)
    capacity += is(at);
  hwloc_obj_t *list = calloc(capacity + 1, sizeof *list);
  *count = 0;
  for (hwloc_obj_t at = NULL; list && (at = hwloc_get_next_pcidev(topology, at));)
    if (is(at))
      list[(*count)++] = at;
  if (list)
    qsort(list, *count, sizeof *list, compare_addresses);
  return list;
}

static void format_address(char out[16], hwloc_obj_t device) {
  const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
  snprintf(out, 16, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->dev, pci->func & 7u);
}

static void copy_name(char out[TOPOLOGY_NAME], hwloc_obj_t device) {
  snprintf(out, TOPOLOGY_NAME, "%s", device ? device->name : "");
}

// The node of a device whose locality is one node; else -1.
static int node_of(hwloc_topology_t topology, hwloc_obj_t device) {
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  return near && near->nodeset && hwloc_bitmap_weight(near->nodeset) == 1 ? hwloc_bitmap_first(near->nodeset) : -1;
}

static void list_cpus(char out[TOPOLOGY_CPUS], hwloc_const_bitmap_t cpus) {
  int size = cpus ? hwloc_bitmap_list_snprintf(out, TOPOLOGY_CPUS, cpus) : -1;
  if (size < 0 || size >= TOPOLOGY_CPUS)
    out[0] = '\0'; // a list that is cut off would be another list
}

static void describe_gpu(struct topology_gpu *gpu, hwloc_topology_t topology, hwloc_obj_t device) {
  format_address(gpu->address, device);
  gpu->vendor = device->attr->pcidev.vendor_id;
  gpu->device = device->attr->pcidev.device_id;
  gpu->numa_node = node_of(topology, device);
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  list_cpus(gpu->cpus, near ? near->cpuset : NULL);
}

// A recorded machine knows no more of its links than the state of an RDMA device's port: 4 is IBV_PORT_ACTIVE.
static void describe_nic(struct topology_nic *nic, hwloc_topology_t topology, hwloc_obj_t device) {
  format_address(nic->address, device);
  hwloc_obj_t rdma = named_child(device, HWLOC_OBJ_OSDEV_OPENFABRICS);
  copy_name(nic->rdma, rdma);
  copy_name(nic->interface, named_child(device, HWLOC_OBJ_OSDEV_NETWORK));
  nic->vendor = device->attr->pcidev.vendor_id;
  nic->device = device->attr->pcidev.device_id;
  nic->numa_node = node_of(topology, device);
  nic->infiniband = device->attr->pcidev.class_id == 0x0207;
  nic->pci_mbit_s = (uint32_t)(device->attr->pcidev.linkspeed * GBYTE_MBITS);
  const char *state = rdma ? hwloc_obj_get_info_by_name(rdma, "Port1State") : NULL;
  if (state)
    nic->link = atoi(state) == 4 ? TOPOLOGY_LINK_UP : TOPOLOGY_LINK_DOWN;
}

static bool is_bridge_above(hwloc_obj_t bridge, hwloc_obj_t device) {
  for (hwloc_obj_t at = device->parent; at; at = at->parent)
    if (at == bridge)
      return true;
  return false;
}

// The number of bridges between a device and a bridge above it.
static int bridges_below(hwloc_obj_t bridge, hwloc_obj_t device) {
  int count = 0;
  for (hwloc_obj_t at = device->parent; at && at != bridge; at = at->parent)
    count++;
  return count;
}

static bool share_a_node(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
  hwloc_obj_t near_a = hwloc_get_non_io_ancestor_obj(topology, a), near_b = hwloc_get_non_io_ancestor_obj(topology, b);
  if (!near_a || !near_b || !near_a->nodeset || !near_b->nodeset ||
      !hwloc_bitmap_intersects(near_a->nodeset, near_b->nodeset))
    return false;
  // A device that is attached to the whole machine has no known node, unless there is only one.
  hwloc_const_nodeset_t all = hwloc_get_root_obj(topology)->nodeset;
  bool somewhere = hwloc_bitmap_isequal(near_a->nodeset, all) || hwloc_bitmap_isequal(near_b->nodeset, all);
  return !somewhere || hwloc_bitmap_weight(all) == 1;
}

// A switch has one upstream bridge, which faces the processor, and one downstream bridge for each device. So two
// devices of one switch have at most one bridge each below the one that they share.
static enum topology_distance measure(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
  hwloc_obj_t shared = a->parent;
  while (shared && shared->type == HWLOC_OBJ_BRIDGE && !is_bridge_above(shared, b))
    shared = shared->parent;
  if (!shared || shared->type != HWLOC_OBJ_BRIDGE)
    return share_a_node(topology, a, b) ? TOPOLOGY_NODE : TOPOLOGY_SYS;
  if (shared->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
    return TOPOLOGY_PHB;
  return bridges_below(shared, a) <= 1 && bridges_below(shared, b) <= 1 ? TOPOLOGY_PIX : TOPOLOGY_PXB;
}

static void describe_nodes(struct topology_choice *choice, hwloc_topology_t topology) {
  for (hwloc_obj_t at = NULL; (at = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, at));) {
    struct topology_node *node = &choice->nodes[choice->num_nodes++];
    node->node = (int)at->os_index;
    list_cpus(node->cpus, at->cpuset);
  }
}

static int fill(struct topology_choice *choice, hwloc_topology_t topology) {
  hwloc_obj_t *gpus = list_devices(topology, is_gpu, &choice->num_gpus);
  hwloc_obj_t *nics = list_devices(topology, is_nic, &choice->num_nics);
  int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  choice->gpus = calloc(choice->num_gpus + 1, sizeof *choice->gpus);
  choice->nics = calloc(choice->num_nics + 1, sizeof *choice->nics);
  choice->nodes = calloc((size_t)(nodes > 0 ? nodes : 0) + 1, sizeof *choice->nodes);
  choice->distances = calloc(choice->num_gpus * choice->num_nics + 1, sizeof *choice->distances);
  bool complete = gpus && nics && choice->gpus && choice->nics && choice->nodes && choice->distances;
  for (size_t g = 0; complete && g < choice->num_gpus; g++) {
    describe_gpu(&choice->gpus[g], topology, gpus[g]);
    for (size_t n = 0; n < choice->num_nics; n++)
      choice->distances[g * choice->num_nics + n] = (uint8_t)measure(topology, gpus[g], nics[n]);
  }
  for (size_t n = 0; complete && n < choice->num_nics; n++)
    describe_nic(&choice->nics[n], topology, nics[n]);
  if (complete)
    describe_nodes(choice, topology);
  free(gpus);
  free(nics);
  choice->known = complete;
  return complete ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the list of devices");
}

int topology_gather(struct topology_choice *choice, bool *this_host) {
  hwloc_topology_t topology;
  int err = topology_hwloc_load(&topology);
  if (err == WEFT_ERR_NOMEM)
    return err;
  if (err) {
    log_warn("%s", weft_last_error());
    return 0;
  }
  *this_host = hwloc_topology_is_thissystem(topology);
  err = fill(choice, topology);
  hwloc_topology_destroy(topology);
  return err;
}
