// The order of preference among the providers that libfabric offers.
#include "transport/ofi/pick.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

// The fastest network first; a provider that is not in the table comes before TCP. Negative: used only on request.
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

// Some IPv6 addresses are valid on one link only, and loopback addresses reach no other host, so both rank below the
// others; IPv4 ranks above IPv6. Other formats have one kind of address.
static int address_rank(const struct fi_info *info) {
  const struct sockaddr_in *four = info->src_addr;
  const struct sockaddr_in6 *six = info->src_addr;
  switch (info->addr_format) {
  case FI_SOCKADDR_IN:
    return four && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? 1 : 3;
  case FI_SOCKADDR_IN6:
    return six && (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) ? 0 : 2;
  default:
    return 2;
  }
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
      if (rank_of(one) == rank_of(best) && one->addr_format == best->addr_format && is_of(one, nics, length))
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
    if (!best || rank > rank_of(best) || (rank == rank_of(best) && address_rank(one) > address_rank(best)))
      best = one;
  }
  return best && nics ? nearest_of(list, best, nics) : best;
}
