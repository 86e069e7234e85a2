// Reads HOST[:PORT], and finds the address by which others reach this host.
#include "run/common/lead_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The size of the host in HOST[:PORT][/], where a numeric IPv6 address with a port stands in brackets.
static size_t host_size(const char *text, size_t size) {
  const char *closing = *text == '[' ? memchr(text, ']', size) : NULL;
  if (closing)
    return (size_t)(closing + 1 - text);
  const char *colon = memchr(text, ':', size);
  if (colon && memchr(colon + 1, ':', size - (size_t)(colon + 1 - text)))
    return size; // an IPv6 address alone
  return colon ? (size_t)(colon - text) : size;
}

char *run_lead_url(const char *lead, uint16_t port) {
  size_t size = strlen(lead), host = host_size(lead, size);
  char *url = NULL;
  int made = host < size ? asprintf(&url, "https://%s", lead) : asprintf(&url, "https://%s:%u", lead, port);
  return made < 0 ? NULL : url;
}

bool run_lead_has_store(const char *lead, const char *endpoints) {
  size_t host = host_size(lead, strlen(lead));
  for (const char *at = endpoints;; at++) {
    size_t size = strcspn(at, ",");
    const char *scheme = strstr(at, "://"), *name = scheme && scheme < at + size ? scheme + 3 : at;
    size_t rest = size - (size_t)(name - at);
    if (rest > 0 && name[rest - 1] == '/')
      rest--;
    if (host_size(name, rest) == host && memcmp(name, lead, host) == 0)
      return true;
    at += size;
    if (!*at)
      return false;
  }
}

// The address from which a packet to elsewhere would go: nothing is sent.
static bool address_of_route(struct in_addr *out) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)}, own;
  socklen_t size = sizeof own;
  inet_pton(AF_INET, "192.0.2.1", &to.sin_addr); // reserved for documentation
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &size) == 0;
  if (fd >= 0)
    close(fd);
  if (found)
    *out = own.sin_addr;
  return found && own.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
}

static bool address_of_interface(struct in_addr *out) {
  struct ifaddrs *list = NULL;
  bool found = false;
  if (getifaddrs(&list))
    return false;
  for (const struct ifaddrs *one = list; one && !found; one = one->ifa_next) {
    found = one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) &&
            !(one->ifa_flags & IFF_LOOPBACK);
    if (found)
      *out = ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr;
  }
  freeifaddrs(list);
  return found;
}

bool run_host_address(char *out, size_t cap) {
  struct in_addr address;
  return (address_of_route(&address) || address_of_interface(&address)) &&
         inet_ntop(AF_INET, &address, out, (socklen_t)cap);
}

static bool answers(const char *address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
    return false;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0; // to this host: at once
  if (fd >= 0)
    close(fd);
  return connected;
}

char *run_url_for_others(const char *url) {
  static const char *const loopback[] = {"127.0.0.1:", "localhost:"};
  char own[INET_ADDRSTRLEN], *told = NULL;
  const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
  for (size_t i = 0; i < sizeof loopback / sizeof loopback[0] && !strchr(url, ','); i++) {
    size_t size = strlen(loopback[i]);
    unsigned long port = strtoul(host + (strlen(host) > size ? size : strlen(host)), NULL, 10);
    if (strncmp(host, loopback[i], size) == 0 && run_host_address(own, sizeof own) && answers(own, (uint16_t)port))
      return asprintf(&told, "%.*s%s:%s", (int)(host - url), url, own, host + size) < 0 ? NULL : told;
  }
  return strdup(url);
}
