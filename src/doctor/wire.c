#include "doctor/wire.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const uint8_t magic[8] = {'w', 'e', 'f', 't', 'd', 'o', 'c', '1'};

void doctor_message_pack(const struct doctor_message *message, uint8_t out[DOCTOR_MESSAGE]) {
  uint32_t mtu = htonl(message->mtu);
  uint16_t port = htons(message->back_port), back = htons((uint16_t)message->back);
  memcpy(out, magic, 8);
  memcpy(out + 8, message->nonce, DOCTOR_NONCE);
  memcpy(out + 24, &mtu, 4);
  memcpy(out + 28, &port, 2);
  memcpy(out + 30, &back, 2);
}

bool doctor_message_unpack(struct doctor_message *message, const uint8_t in[DOCTOR_MESSAGE]) {
  uint32_t mtu;
  uint16_t port, back;
  memcpy(&mtu, in + 24, 4);
  memcpy(&port, in + 28, 2);
  memcpy(&back, in + 30, 2);
  if (memcmp(in, magic, 8) != 0 || ntohs(back) > DOCTOR_UNREACHABLE || ntohl(mtu) > INT32_MAX)
    return false;
  memcpy(message->nonce, in + 8, DOCTOR_NONCE);
  message->mtu = ntohl(mtu);
  message->back_port = ntohs(port);
  message->back = (enum doctor_reach)ntohs(back);
  return true;
}

// Waits until the descriptor is ready; false: the deadline has passed.
static bool await(int fd, short events, uint64_t deadline) {
  struct pollfd ready = {.fd = fd, .events = events};
  while (poll(&ready, 1, clock_left_ms(deadline)) <= 0)
    if (clock_passed(deadline))
      return false;
  return true;
}

static enum doctor_reach reach_of(int error) {
  switch (error) {
  case 0:
    return DOCTOR_REACHED;
  case ECONNREFUSED:
    return DOCTOR_REFUSED;
  case ETIMEDOUT:
    return DOCTOR_SILENT;
  default:
    return DOCTOR_UNREACHABLE;
  }
}

enum doctor_reach doctor_connect(const struct sockaddr *address, socklen_t size, uint64_t deadline, int *out,
                                 int *error) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *error = fd < 0 || connect(fd, address, size) != 0 ? errno : 0;
  if (*error == EINPROGRESS) {
    socklen_t length = sizeof *error;
    if (!await(fd, POLLOUT, deadline))
      *error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &length) != 0)
      *error = errno;
  }
  if (*error == 0)
    *out = fd;
  else if (fd >= 0)
    close(fd);
  return reach_of(*error);
}

bool doctor_send(int fd, const void *data, size_t size, uint64_t deadline) {
  const char *at = data;
  while (size > 0) {
    if (!await(fd, POLLOUT, deadline))
      return false;
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    at += sent > 0 ? sent : 0;
    size -= sent > 0 ? (size_t)sent : 0;
  }
  return true;
}

bool doctor_receive(int fd, void *data, size_t size, uint64_t deadline) {
  char *at = data;
  while (size > 0) {
    if (!await(fd, POLLIN, deadline))
      return false;
    ssize_t got = recv(fd, at, size, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    at += got > 0 ? got : 0;
    size -= got > 0 ? (size_t)got : 0;
  }
  return true;
}

int doctor_accept(int listener, uint64_t deadline) {
  return await(listener, POLLIN, deadline) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
}

bool doctor_send_message(int fd, const struct doctor_message *message, uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  doctor_message_pack(message, bytes);
  return doctor_send(fd, bytes, sizeof bytes, deadline);
}

bool doctor_receive_message(int fd, struct doctor_message *message, uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  return doctor_receive(fd, bytes, sizeof bytes, deadline) && doctor_message_unpack(message, bytes);
}

int doctor_listen_at(const struct sockaddr *address, socklen_t size) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, no = 0;
  if (fd < 0)
    return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address->sa_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(fd, address, size) == 0 && listen(fd, 64) == 0)
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

// The IPv4 address in either form: a socket of both families has it as one of IPv6.
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

static bool same_address(const struct sockaddr *a, const struct sockaddr *b) {
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
    if (at->ifa_addr && same_address(at->ifa_addr, (struct sockaddr *)&own))
      snprintf(name, TOPOLOGY_NAME, "%s", at->ifa_name);
  freeifaddrs(list);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%.15s", name);
  return *name && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}
