// Which NICs serve which GPU: the choice from a description.
#include "topology/choice/parts.h"

#include "base/fail.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *meaning;
} distances[] = {
    [TOPOLOGY_PIX] = {"PIX", "behind the same PCIe switch"},
    [TOPOLOGY_PXB] = {"PXB", "reached through PCIe switches alone"},
    [TOPOLOGY_PHB] = {"PHB", "below the same host bridge"},
    [TOPOLOGY_NODE] = {"NODE", "at the same NUMA node"},
    [TOPOLOGY_SYS] = {"SYS", "at another NUMA node, or at none that is known"},
};

const char *topology_distance_name(enum topology_distance distance) {
  return distances[distance].name;
}

const char *topology_distance_meaning(enum topology_distance distance) {
  return distances[distance].meaning;
}

enum topology_distance topology_distance_of(const struct topology_choice *choice, size_t gpu, size_t nic) {
  return choice->distances[gpu * choice->num_nics + nic];
}

const char *topology_nic_name(const struct topology_nic *nic) {
  return *nic->rdma ? nic->rdma : *nic->interface ? nic->interface : nic->address;
}

// Amazon's Elastic Fabric Adapter has an RDMA device, but is of libfabric's provider rather than of verbs; its link
// layer has no name.
enum topology_network topology_nic_network(const struct topology_nic *nic) {
  enum { AMAZON = 0x1d0f };
  return nic->vendor == AMAZON && *nic->rdma ? TOPOLOGY_EFA : nic->infiniband ? TOPOLOGY_INFINIBAND : TOPOLOGY_ETHERNET;
}

const char *topology_network_name(enum topology_network network) {
  static const char *const names[] = {
      [TOPOLOGY_EFA] = "EFA", [TOPOLOGY_INFINIBAND] = "InfiniBand", [TOPOLOGY_ETHERNET] = "Ethernet"};
  return names[network];
}

// The part of an address from the last four digits of its domain on, or all of it when it has no such domain.
static const char *short_address(const char *address) {
  size_t domain = strcspn(address, ":");
  return address[domain] == ':' && domain > 4 ? address + domain - 4 : address;
}

int topology_gpu_at(const struct topology_choice *choice, const char *address) {
  for (size_t i = 0; i < choice->num_gpus; i++)
    if (strcasecmp(short_address(choice->gpus[i].address), short_address(address)) == 0)
      return (int)i;
  return -1;
}

#ifndef WEFT_HAVE_HWLOC
int topology_gather(struct topology_choice *choice, bool *this_host) {
  (void)choice;
  (void)this_host;
  return 0;
}
#endif

static int choose(struct topology_choice *choice, const struct topology_choice_options *options) {
  bool this_host = true;
  int err = topology_gather(choice, &this_host);
  if (err)
    return err;
  const char *root = options && options->root ? options->root : this_host ? "" : NULL;
  if (root)
    topology_read_links(choice, root);
  const char *wished = options && options->nics ? options->nics : getenv("WEFT_NICS");
  return topology_assign(choice, wished ? wished : "");
}

int topology_choose(struct topology_choice **out, const struct topology_choice_options *options) {
  struct topology_choice *choice = calloc(1, sizeof *choice);
  if (!choice)
    return fail(WEFT_ERR_NOMEM, "no memory for the choice of NICs");
  int err = choose(choice, options);
  if (err)
    topology_choice_free(choice);
  else
    *out = choice;
  return err;
}

void topology_choice_free(struct topology_choice *choice) {
  if (!choice)
    return;
  free(choice->gpus);
  free(choice->nics);
  free(choice->nodes);
  free(choice->distances);
  free(choice);
}
