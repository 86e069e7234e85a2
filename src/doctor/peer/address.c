// Addresses of sockets.
#include "doctor/peer/address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int doctor_listen_at(const struct sockaddr *address, socklen_t size) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, no = 0;
  if (fd < 0)
    return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address->sa_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

uint16_t doctor_port_of(int fd) {
  struct sockaddr_storage own;
  socklen_t size = sizeof own;
  if (getsockname(fd, (struct sockaddr *)&own, &size) != 0)
    return 0;
  return ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                         : ((struct sockaddr_in *)&own)->sin_port);
}

// The IPv4 address, which a socket of both families has as an IPv4-mapped one of IPv6. False: it is another address.
static bool ipv4_of(const struct sockaddr *address, struct in_addr *out) {
  if (address->sa_family == AF_INET) {
    *out = ((const struct sockaddr_in *)address)->sin_addr;
    return true;
  }
  const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
  if (address->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(six))
    return false;
  memcpy(out, &six->s6_addr[12], sizeof *out);
  return true;
}

bool doctor_same_address(const struct sockaddr *a, const struct sockaddr *b) {
  struct in_addr four_a = {0}, four_b = {0};
  bool is_four = ipv4_of(a, &four_a);
  if (is_four != ipv4_of(b, &four_b))
    return false;
  if (is_four)
    return four_a.s_addr == four_b.s_addr;
  return a->sa_family == AF_INET6 && b->sa_family == AF_INET6 &&
         memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
                sizeof(struct in6_addr)) == 0;
}

int doctor_interface_of(int fd, char name[TOPOLOGY_NAME]) {
  struct sockaddr_storage own;
  socklen_t size = sizeof own;
  struct ifaddrs *list = NULL;
  struct ifreq request = {0};
  name[0] = '\0';
  if (getsockname(fd, (struct sockaddr *)&own, &size) != 0 || getifaddrs(&list) != 0)
    return 0;
  for (struct ifaddrs *at = list; at && !*name; at = at->ifa_next)
    if (at->ifa_addr && doctor_same_address(at->ifa_addr, (struct sockaddr *)&own))
      snprintf(name, TOPOLOGY_NAME, "%s", at->ifa_name);
  freeifaddrs(list);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%.15s", name);
  return *name && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}
