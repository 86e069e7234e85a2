// The order of preference among the providers that libfabric offers.
#include "transport/ofi/pick.h"

#include <string.h>

// From the fastest network on; what is not in the table comes before TCP. Negative: only when it is asked for.
// `sockets` hangs and is no longer maintained, `net` does not report deaths, ofi_rxd is unreliable in 1.17, and shared
// memory (shm, sm2) reaches this host only.
static const struct {
  const char *name;
  int rank;
} providers[] = {
    {"cxi", 9},   {"efa", 8},          {"opx", 8},  {"psm3", 7},         {"psm2", 7}, {"verbs;ofi_rxm", 6},
    {"verbs", 6}, {"tcp;ofi_rxm", 2},  {"tcp", 1},  {"shm", -1},         {"sm2", -1}, {"sockets", -2},
    {"net", -2},  {"net;ofi_rxm", -2}, {"udp", -2}, {"udp;ofi_rxd", -2}, {"psm", -2},
};
enum { UNKNOWN_RANK = 4 };

static int rank_of(const struct fi_info *info) {
  const char *name = info->fabric_attr->prov_name;
  for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
    if (strcmp(name, providers[i].name) == 0)
      return providers[i].rank;
  }
  return strstr(name, "ofi_rxd") || strncmp(name, "ofi_", 4) == 0 ? -2 : UNKNOWN_RANK;
}

static int family_rank(const struct fi_info *info) {
  return info->addr_format == FI_SOCKADDR_IN ? 1 : 0; // IPv6 addresses may be of one link only
}

static bool is_of(const struct fi_info *info, const char *nic, size_t length) {
  const char *domain = info->domain_attr->name;
  const char *device = info->nic && info->nic->device_attr ? info->nic->device_attr->name : NULL;
  if (device && strncmp(device, nic, length) == 0 && device[length] == '\0')
    return true;
  return domain && strncmp(domain, nic, length) == 0 && (domain[length] == '\0' || domain[length] == '-');
}

// The first of the list as good as `best` that is of the first of the NICs that has one.
static const struct fi_info *nearest_of(const struct fi_info *list, const struct fi_info *best, const char *nics) {
  for (size_t length; *nics; nics += length + (nics[length] == ',')) {
    length = strcspn(nics, ",");
    for (const struct fi_info *one = list; one && length > 0; one = one->next)
      if (rank_of(one) == rank_of(best) && family_rank(one) == family_rank(best) && is_of(one, nics, length))
        return one;
  }
  return best;
}

const struct fi_info *ofi_pick(const struct fi_info *list, bool asked, const char *nics) {
  const struct fi_info *best = NULL;
  for (const struct fi_info *one = list; one; one = one->next) {
    int rank = rank_of(one);
    if (rank < 0 && !asked)
      continue;
    if (!best || rank > rank_of(best) || (rank == rank_of(best) && family_rank(one) > family_rank(best)))
      best = one;
  }
  return best && nics ? nearest_of(list, best, nics) : best;
}
