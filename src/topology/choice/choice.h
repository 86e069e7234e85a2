// Which NICs serve which GPU of this host, and why: GPUs, NICs, how far they are from each other, and a choice that
// follows from these alone, so that every process of the host makes the same.
#ifndef TOPOLOGY_CHOICE_CHOICE_H
#define TOPOLOGY_CHOICE_CHOICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How far a NIC is from a GPU: the classes and names of `nvidia-smi topo -m`, the nearest first.
enum topology_distance {
  TOPOLOGY_PIX,  // behind one PCIe switch, or below one root port
  TOPOLOGY_PXB,  // through several PCIe switches, none of them the processor's
  TOPOLOGY_PHB,  // through one host bridge
  TOPOLOGY_NODE, // other host bridges of one NUMA node
  TOPOLOGY_SYS,  // another NUMA node, or nobody knows
};

enum topology_link { TOPOLOGY_LINK_UNKNOWN, TOPOLOGY_LINK_UP, TOPOLOGY_LINK_DOWN };

enum { TOPOLOGY_NAME = 32, TOPOLOGY_CPUS = 128, TOPOLOGY_WHY = 256, TOPOLOGY_GPU_NICS = 16 };

struct topology_nic {
  char address[16];              // PCI: domain:bus:device.function
  char rdma[TOPOLOGY_NAME];      // RDMA device, as mlx5_0; "" when there is none
  char interface[TOPOLOGY_NAME]; // network interface, as eth0; "" when there is none
  uint16_t vendor, device;       // PCI ids
  int numa_node;                 // -1: not known, or none in particular
  enum topology_link link;       // of the RDMA device's first port, or of the interface
  uint32_t mbit_s;               // 0: not known
  uint32_t pci_mbit_s;           // of its PCIe link as it runs, 0: not known
  bool infiniband;               // the link layer of the RDMA device; else Ethernet
  bool usable;                   // was considered
  bool chosen;                   // serves a GPU
  char why[TOPOLOGY_WHY];        // why it is not considered or serves no GPU; "" when it does
};

struct topology_gpu {
  char address[16];
  uint16_t vendor, device;
  int numa_node;                    // -1: not known, or none in particular
  char cpus[TOPOLOGY_CPUS];         // processors near it, e.g. "0-47,96-143", for its threads; "" when not known
  uint16_t nics[TOPOLOGY_GPU_NICS]; // indices of those that serve it, the first one foremost
  size_t num_nics;
  enum topology_distance distance; // of these
  char why[TOPOLOGY_WHY];          // why these, or why none
};

struct topology_node {
  int node;
  char cpus[TOPOLOGY_CPUS];
};

// All lists are in the order of PCI addresses, which is the order of `nvidia-smi`, or of node numbers.
struct topology_choice {
  struct topology_gpu *gpus;
  struct topology_nic *nics;
  struct topology_node *nodes;
  uint8_t *distances; // enum topology_distance of (gpu, nic) at gpu * num_nics + nic
  size_t num_gpus, num_nics, num_nodes;
  bool known; // false: built without hwloc, or hwloc cannot read this host; all lists are then empty
};

struct topology_choice_options {
  // Names to choose among, as in the variable WEFT_NICS: RDMA devices, interfaces or PCI addresses with commas between
  // them; with ^ in front, all but these. NULL: the variable. "": no wish.
  const char *nics;
  const char *root; // where sys/ is, for tests; NULL: "/", and nowhere for a recorded machine
};

// Describes this host and chooses; the result is freed with topology_choice_free(). `options` may be NULL. NOMEM;
// INVALID when a wished name is not there, with those that are. Any thread.
int topology_choose(struct topology_choice **choice, const struct topology_choice_options *options);
void topology_choice_free(struct topology_choice *choice); // NULL is legal

// Chooses again for lists and distances that are filled in (the rest is overwritten). INVALID as above.
int topology_assign(struct topology_choice *choice, const char *wished);

enum topology_distance topology_distance_of(const struct topology_choice *choice, size_t gpu, size_t nic);
const char *topology_distance_name(enum topology_distance distance);    // "PIX"
const char *topology_distance_meaning(enum topology_distance distance); // "behind the same PCIe switch"

// The RDMA device, else the interface, else the PCI address.
const char *topology_nic_name(const struct topology_nic *nic);

// Networks whose NICs do not reach those of another.
enum topology_network { TOPOLOGY_EFA, TOPOLOGY_INFINIBAND, TOPOLOGY_ETHERNET, TOPOLOGY_NETWORKS };
enum topology_network topology_nic_network(const struct topology_nic *nic);
const char *topology_network_name(enum topology_network network); // "EFA", "InfiniBand" or "Ethernet"

// The GPU at a PCI address ("0000:1b:00.0", also with the 8-digit domain of CUDA and in capitals), or -1.
int topology_gpu_at(const struct topology_choice *choice, const char *address);

// As JSON, the caller's; NULL when memory ran out. {known, gpus: [{address, numa_node, cpus, nics, distance, why}],
// nics: [{address, rdma, interface, numa_node, link, mbit_s, link_layer, chosen, why}], distances: [[name]]}.
json_t *topology_choice_describe(const struct topology_choice *choice);

#endif
