// Parses and resolves "HOST:PORT", and listens there.
#include "base/net/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"

static int malformed(const char *text) {
  return fail(WEFT_ERR_INVALID, "\"%s\" is not an address: want HOST:PORT or [IPV6]:PORT", text);
}

static bool is_port(const char *text, bool any_port) {
  size_t size = strlen(text);
  if (size == 0 || size > 5 || strspn(text, "0123456789") != size)
    return false;
  unsigned long port = strtoul(text, NULL, 10);
  return port <= 65535 && (port > 0 || any_port);
}

int endpoint_parse(const char *text, bool any_port, char host[ENDPOINT_MAX_HOST], char port[6]) {
  if (!text)
    return fail(WEFT_ERR_INVALID, "the address is NULL: want HOST:PORT or [IPV6]:PORT");
  const char *first = text, *end, *colon;
  if (*text == '[') {
    first++;
    end = strchr(text, ']');
    colon = end ? end + 1 : NULL;
  } else {
    end = colon = strrchr(text, ':');
    if (colon && memchr(text, ':', (size_t)(colon - text)))
      return malformed(text); // an IPv6 address has to stand in brackets
  }
  if (!colon || *colon != ':' || !is_port(colon + 1, any_port) || end == first || end - first >= ENDPOINT_MAX_HOST)
    return malformed(text);
  memcpy(host, first, (size_t)(end - first));
  host[end - first] = '\0';
  snprintf(port, 6, "%s", colon + 1);
  return 0;
}

int endpoint_resolve(const char *text, bool passive, struct addrinfo **addresses) {
  char host[ENDPOINT_MAX_HOST], port[6];
  int err = endpoint_parse(text, passive, host, port);
  if (err)
    return err;
  const struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
  int rc = getaddrinfo(host, port, &hints, addresses);
  if (rc == EAI_MEMORY)
    return fail(WEFT_ERR_NOMEM, "no memory to look up %s", host);
  return rc ? fail(WEFT_ERR_UNREACHABLE, "cannot look up %s: %s", host, gai_strerror(rc)) : 0;
}

static int listen_on(const struct addrinfo *address, const char *text, int *out) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail_errno(errno, "no socket for %s", text);
  int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->ai_family == AF_INET6) // "[::]" is all addresses, whatever net.ipv6.bindv6only says
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
    *out = fd;
    return 0;
  }
  int error = errno;
  close(fd);
  if (error == EADDRINUSE)
    return fail(WEFT_ERR_BUSY, "the port of %s is in use; 0 takes any free one", text);
  if (error == EADDRNOTAVAIL)
    return fail(WEFT_ERR_INVALID, "%s is not an address of this host", text);
  return fail_errno(error, "cannot listen at %s", text);
}

int endpoint_listen(const char *text, int *fd, uint16_t *port) {
  struct addrinfo *addresses;
  int err = endpoint_resolve(text, true, &addresses);
  if (err)
    return err;
  err = WEFT_ERR_UNREACHABLE;
  // A host may have no IPv6, so the next address is tried. But if the port of one is taken, those who connect to this
  // name would reach its owner first.
  for (const struct addrinfo *address = addresses; address && err && err != WEFT_ERR_BUSY; address = address->ai_next)
    err = listen_on(address, text, fd);
  freeaddrinfo(addresses);
  if (err)
    return err;
  struct sockaddr_storage bound;
  socklen_t size = sizeof bound;
  getsockname(*fd, (struct sockaddr *)&bound, &size);
  *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                            : ((struct sockaddr_in *)&bound)->sin_port);
  return 0;
}
