// Reads HOST[:PORT], and compares hosts by their addresses.
#include "run/common/lead_address.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/common/own_address.h"

enum { HOST_MAX = 256, OPEN_MS = 1000 };

// The size of the host in HOST[:PORT][/]. A numeric IPv6 address with a port is in brackets.
static size_t host_size(const char *text, size_t size) {
  const char *closing = *text == '[' ? memchr(text, ']', size) : NULL;
  if (closing)
    return (size_t)(closing + 1 - text);
  const char *colon = memchr(text, ':', size);
  if (colon && memchr(colon + 1, ':', size - (size_t)(colon + 1 - text)))
    return size; // an IPv6 address without a port
  return colon ? (size_t)(colon - text) : size;
}

char *run_lead_url(const char *lead, uint16_t port) {
  size_t size = strlen(lead), host = host_size(lead, size);
  bool bare = *lead != '[' && memchr(lead, ':', host); // an address that needs brackets in a URL
  char *url = NULL;
  int made = host < size ? asprintf(&url, "https://%s", lead)
                         : asprintf(&url, bare ? "https://[%s]:%u" : "https://%s:%u", lead, port);
  return made < 0 ? NULL : url;
}

// Looks up the addresses of a name. NULL: the name has none. `port` may be NULL.
static struct addrinfo *addresses_of(const char *host, size_t size, const char *port) {
  char name[HOST_MAX];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
  bool bracketed = size > 1 && host[0] == '[';
  snprintf(name, sizeof name, "%.*s", (int)(bracketed ? size - 2 : size), bracketed ? host + 1 : host);
  return size < sizeof name && getaddrinfo(name, port, &hints, &found) == 0 ? found : NULL;
}

static bool any_is_own(const struct addrinfo *list) {
  for (const struct addrinfo *one = list; one; one = one->ai_next)
    if (run_address_is_own(one->ai_addr))
      return true;
  return false;
}

static bool share_address(const struct addrinfo *a, const struct addrinfo *b) {
  for (const struct addrinfo *one = a; one; one = one->ai_next)
    for (const struct addrinfo *other = b; other; other = other->ai_next)
      if (run_address_equal(one->ai_addr, other->ai_addr))
        return true;
  return any_is_own(a) && any_is_own(b);
}

static bool same_host(const char *a, size_t a_size, const char *b, size_t b_size) {
  if (a_size == b_size && memcmp(a, b, a_size) == 0)
    return true;
  struct addrinfo *one = addresses_of(a, a_size, NULL), *other = addresses_of(b, b_size, NULL);
  bool same = share_address(one, other);
  if (one)
    freeaddrinfo(one);
  if (other)
    freeaddrinfo(other);
  return same;
}

bool run_lead_has_store(const char *lead, const char *endpoints) {
  size_t host = host_size(lead, strlen(lead));
  for (const char *at = endpoints;; at++) {
    size_t size = strcspn(at, ",");
    const char *scheme = strstr(at, "://"), *name = scheme && scheme < at + size ? scheme + 3 : at;
    size_t rest = size - (size_t)(name - at);
    if (rest > 0 && name[rest - 1] == '/')
      rest--;
    if (same_host(name, host_size(name, rest), lead, host))
      return true;
    at += size;
    if (!*at)
      return false;
  }
}

static bool is_open(const struct addrinfo *at) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
  socklen_t size = sizeof error;
  bool open = fd >= 0;
  if (open && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
    struct pollfd done = {.fd = fd, .events = POLLOUT};
    open = poll(&done, 1, OPEN_MS) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  if (fd >= 0)
    close(fd);
  return open;
}

bool run_url_is_open(const char *url) {
  const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
  size_t size = host_size(host, strlen(host));
  struct addrinfo *list = host[size] == ':' ? addresses_of(host, size, host + size + 1) : NULL;
  bool open = list && is_open(list);
  if (list)
    freeaddrinfo(list);
  return open;
}
