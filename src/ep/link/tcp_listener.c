// Listens for ranks of other hosts, and calls their listeners.
#include "ep/link/tcp_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/interrupt.h"

enum {
  CALL_MS = 2000, // time limit of a call to one address: others may answer
  NAMES_SIZE = 512,
  RECEIVED = 16384, // about how many bytes of a caller the kernel buffers: more than a rank ever sends at once
};

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

struct addresses {
  union address at[EP_ENDPOINTS];
  int count;
};

static socklen_t size_of(const union address *address) {
  return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

static bool parse(const char *text, union address *out) {
  *out = (union address){.v6 = {.sin6_family = AF_INET6}};
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1)
    return true;
  *out = (union address){.v4 = {.sin_family = AF_INET}};
  return inet_pton(AF_INET, text, &out->v4.sin_addr) == 1;
}

// An IPv4 address from a listener for both kinds is printed as IPv4.
static void print(const union address *address, char out[EP_ENDPOINT_SIZE]) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->any.sa_family == AF_INET)
    inet_ntop(AF_INET, &address->v4.sin_addr, text, sizeof text);
  else if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
    inet_ntop(AF_INET, &address->v6.sin6_addr.s6_addr[12], text, sizeof text);
  else
    inet_ntop(AF_INET6, &address->v6.sin6_addr, text, sizeof text);
  snprintf(out, EP_ENDPOINT_SIZE, strchr(text, ':') ? "[%s]" : "%s", text);
}

static void add(struct addresses *addresses, const union address *address) {
  if (addresses->count < EP_ENDPOINTS)
    addresses->at[addresses->count++] = *address;
}

// --- listening ---

// Collects the addresses of one interface; with `interface` NULL those of all interfaces that are up, with loopback if
// asked. Link-local addresses (fe80::) are left out, since other hosts cannot use them.
static void collect(struct addresses *addresses, const char *interface, bool loopback) {
  struct ifaddrs *all;
  if (getifaddrs(&all) != 0)
    return;
  for (int family = AF_INET;; family = AF_INET6) { // IPv4 first
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP))
        continue;
      if (interface ? strcmp(interface, one->ifa_name) != 0 : !!(one->ifa_flags & IFF_LOOPBACK) != loopback)
        continue;
      union address address = {0};
      memcpy(&address, one->ifa_addr, family == AF_INET ? sizeof address.v4 : sizeof address.v6);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr))
        continue;
      add(addresses, &address);
    }
    if (family == AF_INET6)
      break;
  }
  freeifaddrs(all);
}

static int choose(const char *at, struct addresses *addresses) {
  if (!at || !*at) {
    collect(addresses, NULL, false);
    if (addresses->count == 0)
      collect(addresses, NULL, true);
    return addresses->count > 0 ? 0 : fail(WEFT_ERR_UNREACHABLE, "no interface of this host is up");
  }
  char names[NAMES_SIZE], *rest = names;
  if (snprintf(names, sizeof names, "%s", at) >= (int)sizeof names)
    return fail(WEFT_ERR_INVALID, "the addresses to listen at have %zu bytes together: want at most %d", strlen(at),
                NAMES_SIZE - 1);
  for (const char *name; (name = strsep(&rest, ","));) {
    union address address;
    int before = addresses->count;
    if (parse(name, &address))
      add(addresses, &address);
    else
      collect(addresses, name, false);
    if (addresses->count == before && before < EP_ENDPOINTS)
      return fail(WEFT_ERR_INVALID, "'%s' is neither an address nor an interface of this host that is up", name);
  }
  return 0;
}

static int open_listener(const union address *address, int *listener, uint16_t *port) {
  int on = 1, off = 0, room = RECEIVED;
  int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail_errno(errno, "no socket for peers on other hosts");
  if (address->any.sa_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room); // callers' sockets inherit it
  union address bound;
  socklen_t size = sizeof bound;
  if (bind(fd, &address->any, size_of(address)) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, &bound.any, &size) != 0) {
    int error = errno;
    char text[EP_ENDPOINT_SIZE];
    print(address, text);
    close(fd);
    return error == EADDRNOTAVAIL ? fail(WEFT_ERR_INVALID, "%s is not an address of this host", text)
                                  : fail_errno(error, "cannot listen at %s for peers on other hosts", text);
  }
  *listener = fd;
  *port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
  return 0;
}

// With one address listens there; with several listens on all, since they share one port.
static int open_for(const struct addresses *addresses, int *listener, uint16_t *port) {
  if (addresses->count == 1)
    return open_listener(&addresses->at[0], listener, port);
  union address any = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}};
  if (open_listener(&any, listener, port) == 0)
    return 0;
  any = (union address){.v4 = {.sin_family = AF_INET}}; // a host without IPv6
  return open_listener(&any, listener, port);
}

int ep_endpoint_listen(const char *at, int *listener, char *out, size_t cap) {
  struct addresses addresses = {0};
  uint16_t port = 0;
  int rc = choose(at, &addresses);
  if (rc == 0)
    rc = open_for(&addresses, listener, &port);
  size_t used = 0;
  for (int i = 0; rc == 0 && i < addresses.count; i++) {
    char text[EP_ENDPOINT_SIZE];
    print(&addresses.at[i], text);
    int size = snprintf(out + used, cap - used, "%s%s:%u", used ? "," : "", text, port);
    if (used + (size_t)size >= cap) { // this address and those after it are left out
      out[used] = '\0';
      break;
    }
    used += (size_t)size;
  }
  return rc;
}

bool ep_endpoint_is_ours(int socket, const char *endpoints) {
  union address own;
  socklen_t size = sizeof own;
  char text[EP_ENDPOINT_SIZE], names[NAMES_SIZE], *rest = names;
  if (getsockname(socket, &own.any, &size) != 0)
    return false;
  print(&own, text);
  size_t length = strlen(text);
  snprintf(names, sizeof names, "%s", endpoints);
  for (const char *name; (name = strsep(&rest, ","));)
    if (strncmp(name, text, length) == 0 && name[length] == ':')
      return true;
  return false;
}

// --- calling ---

static bool parse_endpoint(char *text, union address *out) {
  char *colon = strrchr(text, ':'), *end;
  if (!colon)
    return false;
  *colon = '\0';
  unsigned long port = strtoul(colon + 1, &end, 10);
  if (end == colon + 1 || *end || port == 0 || port > UINT16_MAX)
    return false;
  if (text[0] == '[' && colon[-1] == ']') {
    colon[-1] = '\0';
    text++;
  }
  if (!parse(text, out))
    return false;
  if (out->any.sa_family == AF_INET6)
    out->v6.sin6_port = htons((uint16_t)port);
  else
    out->v4.sin_port = htons((uint16_t)port);
  return true;
}

// 0, or an errno.
static int connect_until(weft_ep_t *ep, int fd, const union address *to, uint64_t deadline_ns) {
  if (connect(fd, &to->any, size_of(to)) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  int n = ep_interrupt_poll(ep, fd, POLLOUT, deadline_ns);
  if (n <= 0)
    return n == 0 ? ETIMEDOUT : n == -1 ? errno : ECANCELED;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// Calls one address; returns 0 and the socket, or an errno.
static int call_one(weft_ep_t *ep, const union address *to, uint64_t deadline_ns, int *out) {
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return errno;
  uint64_t limit_ns = clock_deadline_ms(CALL_MS);
  int error = connect_until(ep, fd, to, limit_ns < deadline_ns ? limit_ns : deadline_ns);
  if (error == 0)
    *out = fd;
  else
    close(fd);
  return error;
}

int ep_endpoint_call(weft_ep_t *ep, const char **endpoints, int32_t rank, uint64_t deadline_ns, int *out) {
  const char *all = *endpoints;
  int error = EADDRNOTAVAIL;
  bool refused = true;
  while (**endpoints) {
    char text[EP_ENDPOINT_SIZE];
    size_t length = strcspn(*endpoints, ",");
    snprintf(text, sizeof text, "%.*s", (int)length, *endpoints);
    *endpoints += length + ((*endpoints)[length] == ',');
    union address to;
    if (!parse_endpoint(text, &to))
      return fail(WEFT_ERR_PROTOCOL, "rank %d has malformed endpoints: \"%s\"", rank, all);
    error = call_one(ep, &to, deadline_ns, out);
    if (error == 0)
      return 0;
    if (error == ECANCELED)
      return ep_canceled("connect");
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
      return fail_errno(error, "cannot call rank %d", rank);
    refused = refused && error == ECONNREFUSED;
  }
  if (refused && *all)
    return fail(WEFT_ERR_PEER_LOST, "rank %d does not listen at %s: its process is gone", rank, all);
  return fail(WEFT_ERR_UNREACHABLE,
              "rank %d cannot be reached at %s: %s (there, WEFT_ADDRESS or WEFT_INTERFACE chooses the address)", rank,
              all, strerror(error));
}

void ep_endpoint_tune(int socket) {
  int on = 1, second = 1, probes = EP_ENDPOINT_TIMEOUT_MS / 1000 - 1;
  unsigned timeout_ms = EP_ENDPOINT_TIMEOUT_MS;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}
