// The parts that transports of UCX have in a worker address.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/fail.h"
#include "transport/ucx/check/check.h"

uint16_t ucx_transport_sum(const char *name) {
  uint16_t sum = 0xffff;
  for (; *name; name++) {
    sum ^= (unsigned char)*name;
    for (int bit = 0; bit < 8; bit++)
      sum = (uint16_t)(sum & 1 ? sum >> 1 ^ 0x8408 : sum >> 1);
  }
  return (uint16_t)~sum;
}

static bool is_one_of(uint16_t transport, const char *const *names) {
  for (; *names; names++) {
    if (ucx_transport_sum(*names) == transport)
      return true;
  }
  return false;
}

static bool reaches_four(const uint8_t *bytes) {
  uint32_t address = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
  return address >> 24 != 0 && !IN_MULTICAST(address) && address != INADDR_BROADCAST;
}

static bool reaches_six(const uint8_t *bytes) {
  struct in6_addr address;
  memcpy(&address, bytes, sizeof address);
  return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_MULTICAST(&address);
}

// Flags (1: the loopback interface, which only its own network namespace reaches), family, address; the port. For the
// loopback interface an identity replaces the address: UCX 1.13 writes 16 bytes, 1.22 writes 12.
static bool tcp_is_good(const struct ucx_entry *entry) {
  enum { LOOPBACK = 1, HEAD = 2, PORT = 2 };
  const uint8_t *device = entry->device;
  if (entry->device_size < HEAD || entry->interface_size != PORT || !(entry->interface[0] | entry->interface[1]))
    return false;
  if (device[0] > LOOPBACK || (device[1] != AF_INET && device[1] != AF_INET6))
    return false;
  if (device[0] == LOOPBACK)
    return entry->device_size == HEAD + 12 || entry->device_size == HEAD + 16;
  if (device[1] == AF_INET)
    return entry->device_size == HEAD + 4 && reaches_four(device + HEAD);
  return entry->device_size == HEAD + 16 && reaches_six(device + HEAD);
}

// A byte of flags, which determine the rest: for RoCE a GID, else a LID and parts of the GID; also MTU, index,
// partition.
static bool infiniband_is_good(const struct ucx_entry *entry) {
  enum { INDEX = 1, MTU = 2, PARTITION = 4, ROCE = 8, SUBNET16 = 16, SUBNET64 = 32, INTERFACE = 64 };
  if (entry->device_size == 0)
    return false;
  uint8_t flags = entry->device[0];
  size_t need = 1 + (flags & INDEX ? 1 : 0) + (flags & MTU ? 1 : 0) + (flags & PARTITION ? 2 : 0);
  if (flags & ROCE)
    need += 16;
  else
    need += 2 + (flags & INTERFACE ? 8 : 0) + (flags & SUBNET16 ? 2 : flags & SUBNET64 ? 8 : 0);
  return entry->device_size >= need;
}

static bool is_as_long_as_ours(const struct ucx_entry *entry, const struct ucx_sizes *own) {
  bool have = false;
  for (uint32_t i = 0; i < own->count; i++) {
    if (own->of[i].transport != entry->transport)
      continue;
    have = true;
    if (own->of[i].device == entry->device_size && own->of[i].interface == entry->interface_size)
      return true;
  }
  return !have; // UCX passes over it
}

int ucx_entry_check(const struct ucx_entry *entry, const struct ucx_sizes *own) {
  static const char *const tcp[] = {"tcp", NULL};
  static const char *const infiniband[] = {"rc_verbs", "rc_mlx5", "dc_mlx5",  "ud_verbs",
                                           "ud_mlx5",  "srd",     "gga_mlx5", NULL};
  if (is_one_of(entry->transport, tcp))
    return tcp_is_good(entry) ? 0
                              : fail(WEFT_ERR_PROTOCOL, "an address of UCX names a TCP port that cannot be reached");
  if (is_one_of(entry->transport, infiniband))
    return infiniband_is_good(entry) ? 0 : fail(WEFT_ERR_PROTOCOL, "an address of UCX has a broken InfiniBand address");
  if (!is_as_long_as_ours(entry, own))
    return fail(WEFT_ERR_PROTOCOL, "an address of UCX is not of the size that this side's UCX uses: run the same UCX");
  return 0;
}
