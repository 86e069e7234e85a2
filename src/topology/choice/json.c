// The choice as JSON.
#include "topology/choice/choice.h"

static json_t *node_or_null(int node) {
  return node >= 0 ? json_integer(node) : json_null();
}

static json_t *text_or_null(const char *text) {
  return *text ? json_string(text) : json_null();
}

static json_t *describe_gpu(const struct topology_choice *choice, const struct topology_gpu *gpu) {
  json_t *nics = json_array();
  for (size_t i = 0; i < gpu->num_nics; i++)
    json_array_append_new(nics, json_string(topology_nic_name(&choice->nics[gpu->nics[i]])));
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "address", gpu->address, "numa_node", node_or_null(gpu->numa_node),
                   "cpus", text_or_null(gpu->cpus), "nics", nics, "distance",
                   gpu->num_nics ? json_string(topology_distance_name(gpu->distance)) : json_null(), "why", gpu->why);
}

static json_t *describe_nic(const struct topology_nic *nic) {
  static const char *const links[] = {"unknown", "up", "down"};
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:s, s:b, s:o}", "name", topology_nic_name(nic), "address",
                   nic->address, "rdma", text_or_null(nic->rdma), "interface", text_or_null(nic->interface),
                   "numa_node", node_or_null(nic->numa_node), "link", links[nic->link], "mbit_s",
                   nic->mbit_s ? json_integer(nic->mbit_s) : json_null(), "link_layer",
                   topology_network_name(topology_nic_network(nic)), "chosen", nic->chosen, "why",
                   text_or_null(nic->why));
}

static json_t *describe_distances(const struct topology_choice *choice, size_t gpu) {
  json_t *row = json_array();
  for (size_t n = 0; n < choice->num_nics; n++)
    json_array_append_new(row, json_string(topology_distance_name(topology_distance_of(choice, gpu, n))));
  return row;
}

json_t *topology_choice_describe(const struct topology_choice *choice) {
  json_t *gpus = json_array(), *nics = json_array(), *distances = json_array();
  for (size_t g = 0; g < choice->num_gpus; g++) {
    json_array_append_new(gpus, describe_gpu(choice, &choice->gpus[g]));
    json_array_append_new(distances, describe_distances(choice, g));
  }
  for (size_t n = 0; n < choice->num_nics; n++)
    json_array_append_new(nics, describe_nic(&choice->nics[n]));
  return json_pack("{s:b, s:o, s:o, s:o}", "known", choice->known, "gpus", gpus, "nics", nics, "distances", distances);
}
