// The addresses at which the embedded server listens.
#include "store/server/server.h"

#include "base/fail.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
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

static int not_numeric(const char *text) {
  return fail(WEFT_ERR_INVALID, "'%s' is not a numeric address: want one such as 127.0.0.1 or ::1", text);
}

// A link-local address exists on each network, so it has its interface behind it: fe80::1%eth0 (RFC 4007, 11). Others
// have none.
static int parse_zone(const char *text, const char *zone, struct sockaddr_in6 *out) {
  if (!IN6_IS_ADDR_LINKLOCAL(&out->sin6_addr))
    return zone ? not_numeric(text) : 0;
  if (!zone)
    return fail(WEFT_ERR_INVALID, "%s is a link-local address: want its interface behind it, as in %s%%eth0", text,
                text);
  out->sin6_scope_id = if_nametoindex(zone);
  return out->sin6_scope_id ? 0 : fail(WEFT_ERR_INVALID, "%s: this host has no interface '%s'", text, zone);
}

static int parse(const char *text, uint16_t port, union address *out) {
  char plain[INET6_ADDRSTRLEN];
  size_t size = strcspn(text, "%");
  snprintf(plain, sizeof plain, "%.*s", (int)size, text);
  *out = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
  if (size < sizeof plain && inet_pton(AF_INET6, plain, &out->v6.sin6_addr) == 1)
    return parse_zone(text, text[size] ? text + size + 1 : NULL, &out->v6);
  *out = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
  return inet_pton(AF_INET, text, &out->v4.sin_addr) == 1 ? 0 : not_numeric(text);
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
  const char *scheme = tls ? "https" : "http", *zone = strchr(text, '%');
  if (zone) // "%" is written as "%25" (RFC 6874)
    snprintf(url, 96, "%s://[%.*s%%25%s]:%u", scheme, (int)(zone - text), text, zone + 1, port);
  else
    snprintf(url, 96, v6 ? "%s://[%s]:%u" : "%s://%s:%u", scheme, text, port);
}

int server_listen(const struct weft_store_server_options *options, int *listener, char url[96]) {
  const char *text = options->address ? options->address : "127.0.0.1";
  union address address;
  int err = parse(text, options->port, &address);
  if (err)
    return err;
  if ((options->flags & WEFT_STORE_SERVER_INSECURE) && !is_loopback(&address))
    return fail(WEFT_ERR_INVALID,
                "%s can be reached from other hosts: an insecure store is for a loopback address only", text);
  err = listen_on(&address, text, options->port, listener);
  if (!err)
    write_url(*listener, !(options->flags & WEFT_STORE_SERVER_INSECURE), text, url);
  return err;
}
