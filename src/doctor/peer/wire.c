// The messages between the two sides of a probe.
#include "doctor/peer/wire.h"

#include "base/fail.h"
#include "base/time/clock.h"

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

static const uint8_t magic[8] = {'w', 'e', 'f', 't', 'd', 'o', 'c', '2'};

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

// What a call of TLS, or of the socket, waits for, as poll() takes it.
static bool await_wants(int fd, int wants, uint64_t deadline) {
  return await(fd, wants == TLS_WANTS_WRITE ? POLLOUT : POLLIN, deadline);
}

int doctor_line_open(struct doctor_line *line, int fd, bool calls, const uint8_t key[SECRET_KEY_SIZE],
                     uint64_t deadline) {
  *line = (struct doctor_line){.fd = fd};
  int rc = tls_open(&line->tls, fd, calls, DOCTOR_PROTOCOL, key);
  while (rc == 0 && (rc = tls_handshake(line->tls)) > 0)
    rc = await_wants(fd, rc, deadline) ? 0 : fail(WEFT_ERR_TIMEOUT, "it says nothing");
  return rc;
}

void doctor_line_close(struct doctor_line *line) {
  tls_close(line->tls);
  if (line->fd >= 0)
    close(line->fd);
  *line = (struct doctor_line){.fd = -1};
}

// As tls_write() and tls_read().
static int write_some(const struct doctor_line *line, const void *data, size_t size, size_t *sent) {
  if (line->tls)
    return tls_write(line->tls, data, size, sent);
  ssize_t count = send(line->fd, data, size, MSG_NOSIGNAL);
  if (count < 0)
    return errno == EAGAIN || errno == EINTR ? TLS_WANTS_WRITE : WEFT_ERR_PEER_LOST;
  *sent = (size_t)count;
  return 0;
}

static int read_some(const struct doctor_line *line, void *data, size_t size, size_t *got) {
  if (line->tls)
    return tls_read(line->tls, data, size, got);
  ssize_t count = recv(line->fd, data, size, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return TLS_WANTS_READ;
  *got = (size_t)(count > 0 ? count : 0);
  return count > 0 ? 0 : WEFT_ERR_PEER_LOST;
}

bool doctor_send(const struct doctor_line *line, const void *data, size_t size, uint64_t deadline) {
  const char *at = data;
  while (size > 0) {
    size_t sent = 0;
    int rc = write_some(line, at, size, &sent);
    if (rc < 0 || clock_passed(deadline) || (rc > 0 && !await_wants(line->fd, rc, deadline)))
      return false;
    at += sent;
    size -= sent;
  }
  return true;
}

bool doctor_receive(const struct doctor_line *line, void *data, size_t size, uint64_t deadline) {
  char *at = data;
  while (size > 0) {
    size_t got = 0;
    int rc = read_some(line, at, size, &got);
    if (rc < 0 || clock_passed(deadline) || (rc > 0 && !await_wants(line->fd, rc, deadline)))
      return false;
    at += got;
    size -= got;
  }
  return true;
}

int doctor_accept(int listener, uint64_t deadline) {
  return await(listener, POLLIN, deadline) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
}

bool doctor_send_message(const struct doctor_line *line, const struct doctor_message *message, uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  doctor_message_pack(message, bytes);
  return doctor_send(line, bytes, sizeof bytes, deadline);
}

bool doctor_receive_message(const struct doctor_line *line, struct doctor_message *message, uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  return doctor_receive(line, bytes, sizeof bytes, deadline) && doctor_message_unpack(message, bytes);
}

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
