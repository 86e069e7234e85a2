// The addresses at which the embedded server listens.
#include "store/server/server.h"

#include "base/fail.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static bool parse(const char *text, uint16_t port, union address *out) {
  *out = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1)
    return true;
  *out = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
  return inet_pton(AF_INET, text, &out->v4.sin_addr) == 1;
}

static bool is_loopback(const union address *address) {
  if (address->any.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
  return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

static int bind_failed(int error, const char *text, uint16_t port) {
  switch (error) {
  case EADDRINUSE:
    return fail(WEFT_ERR_BUSY, "port %u of %s is in use; 0 takes any free one", port, text);
  case EADDRNOTAVAIL:
    return fail(WEFT_ERR_INVALID, "%s is not an address of this host", text);
  default:
    return fail_errno(error, "cannot listen on %s, port %u", text, port);
  }
}

// Accepted sockets inherit TCP_NODELAY: answers and events are small and shall leave at once.
static int listen_on(const union address *address, const char *text, uint16_t port, int *listener) {
  int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail_errno(errno, "no socket for %s, port %u", text, port);
  socklen_t size = address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
  int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->any.sa_family == AF_INET6) // "::" is all addresses, whatever net.ipv6.bindv6only says
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (bind(fd, &address->any, size) != 0 || listen(fd, SOMAXCONN) != 0) {
    int error = errno;
    close(fd);
    return bind_failed(error, text, port);
  }
  *listener = fd;
  return 0;
}

static void write_url(int listener, bool tls, const char *text, char url[96]) {
  union address bound;
  socklen_t size = sizeof bound;
  getsockname(listener, &bound.any, &size);
  bool v6 = bound.any.sa_family == AF_INET6;
  unsigned port = ntohs(v6 ? bound.v6.sin6_port : bound.v4.sin_port);
  snprintf(url, 96, v6 ? "%s://[%s]:%u" : "%s://%s:%u", tls ? "https" : "http", text, port);
}

int server_listen(const struct weft_store_server_options *options, int *listener, char url[96]) {
  const char *text = options->address ? options->address : "127.0.0.1";
  union address address;
  if (!parse(text, options->port, &address))
    return fail(WEFT_ERR_INVALID, "'%s' is not a numeric address: want one such as 127.0.0.1 or ::1", text);
  if ((options->flags & WEFT_STORE_SERVER_INSECURE) && !is_loopback(&address))
    return fail(WEFT_ERR_INVALID,
                "%s can be reached from other hosts: an insecure store is for a loopback address only", text);
  int err = listen_on(&address, text, options->port, listener);
  if (!err)
    write_url(*listener, !(options->flags & WEFT_STORE_SERVER_INSECURE), text, url);
  return err;
}
