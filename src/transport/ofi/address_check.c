// Checks the name of an endpoint that a peer sent.
#include "transport/ofi/address_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <stdbool.h>
#include <string.h>

#include "base/fail.h"

static bool is_four(const void *name, size_t size) {
  struct sockaddr_in four;
  if (size != sizeof four)
    return false;
  memcpy(&four, name, sizeof four);
  uint32_t address = ntohl(four.sin_addr.s_addr);
  return four.sin_family == AF_INET && four.sin_port != 0 && address >> 24 != 0 && !IN_MULTICAST(address) &&
         address != INADDR_BROADCAST;
}

static bool is_six(const void *name, size_t size) {
  struct sockaddr_in6 six;
  if (size != sizeof six)
    return false;
  memcpy(&six, name, sizeof six);
  return six.sin6_family == AF_INET6 && six.sin6_port != 0 && !IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr) &&
         !IN6_IS_ADDR_MULTICAST(&six.sin6_addr);
}

// A text with its NUL, from which the provider shm makes the name of a file in /dev/shm.
static bool is_text(const char *name, size_t size) {
  const char *colon = memchr(name, ':', size);
  if (size < 2 || name[size - 1] != '\0' || memchr(name, '\0', size - 1))
    return false;
  const char *rest = colon && strncmp(colon, "://", 3) == 0 ? colon + 3 : name;
  return *rest && !strchr(rest, '/');
}

int ofi_name_check(uint32_t format, const void *name, size_t size, size_t own_size) {
  bool good = format == FI_SOCKADDR_IN    ? is_four(name, size)
              : format == FI_SOCKADDR_IN6 ? is_six(name, size)
              : format == FI_ADDR_STR     ? is_text(name, size)
                                          : size == own_size;
  return good ? 0 : fail(WEFT_ERR_PROTOCOL, "an address of ofi has a name that does not belong to one endpoint");
}
