// Finds the address at which other hosts reach this host.
#include "run/common/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/text.h"

enum { MAX_ADDRESSES = 16 };

// The bytes of an address; NULL: the family is neither IPv4 nor IPv6.
static const void *bytes_of(const struct sockaddr *address, size_t *size) {
  const struct sockaddr_in *v4 = (const void *)address;
  const struct sockaddr_in6 *v6 = (const void *)address;
  *size = address->sa_family == AF_INET ? sizeof v4->sin_addr : sizeof v6->sin6_addr;
  return address->sa_family == AF_INET    ? (const void *)&v4->sin_addr
         : address->sa_family == AF_INET6 ? (const void *)&v6->sin6_addr
                                          : NULL;
}

bool run_address_equal(const struct sockaddr *a, const struct sockaddr *b) {
  size_t size, other_size;
  const void *bytes = bytes_of(a, &size), *other = bytes_of(b, &other_size);
  return a->sa_family == b->sa_family && bytes && memcmp(bytes, other, size) == 0;
}

bool run_address_is_own(const struct sockaddr *address) {
  size_t size;
  const uint8_t *bytes = bytes_of(address, &size);
  if (bytes && address->sa_family == AF_INET && bytes[0] == 127)
    return true;
  struct ifaddrs *list = NULL;
  bool found = false;
  if (getifaddrs(&list))
    return false;
  for (const struct ifaddrs *one = list; one && !found; one = one->ifa_next)
    found = one->ifa_addr && run_address_equal(one->ifa_addr, address);
  freeifaddrs(list);
  return found;
}

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static socklen_t size_of(const union address *address) {
  return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

// Copies an address that other hosts may reach. False: it is a link-local IPv6 address, or of another family.
static bool take_address(const struct sockaddr *from, union address *out) {
  *out = (union address){.any = {.sa_family = from ? from->sa_family : AF_UNSPEC}};
  if (out->any.sa_family == AF_INET)
    memcpy(&out->v4, from, sizeof out->v4);
  else if (out->any.sa_family == AF_INET6)
    memcpy(&out->v6, from, sizeof out->v6);
  else
    return false;
  return out->any.sa_family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&out->v6.sin6_addr);
}

// The source address of a packet to another network. Nothing is sent.
static bool address_of_route(int family, union address *out) {
  union address to = {.any = {.sa_family = (sa_family_t)family}}, own;
  socklen_t size = sizeof own;
  if (family == AF_INET) { // both destinations are reserved for documentation
    to.v4.sin_port = htons(9);
    inet_pton(family, "192.0.2.1", &to.v4.sin_addr);
  } else {
    to.v6.sin6_port = htons(9);
    inet_pton(family, "2001:db8::1", &to.v6.sin6_addr);
  }
  int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && connect(fd, &to.any, size_of(&to)) == 0 && getsockname(fd, &own.any, &size) == 0 &&
               take_address(&own.any, out);
  if (fd >= 0)
    close(fd);
  return found && (family == AF_INET ? out->v4.sin_addr.s_addr != htonl(INADDR_LOOPBACK)
                                     : !IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr));
}

// Whether WEFT_INTERFACE, a list, names the interface.
static bool is_chosen(const char *interface) {
  const char *list = getenv("WEFT_INTERFACE");
  for (size_t size; list && *list; list += size + (list[size] == ',')) {
    size = strcspn(list, ",");
    if (size == strlen(interface) && memcmp(list, interface, size) == 0)
      return true;
  }
  return false;
}

// Adds the addresses of one family. The source address of packets to other networks comes first, unless only addresses
// of `chosen` interfaces are requested.
static size_t add_addresses(const struct ifaddrs *list, int family, bool chosen, union address *out, size_t count) {
  if (!chosen && count < MAX_ADDRESSES && address_of_route(family, &out[count]))
    count++;
  for (const struct ifaddrs *one = list; one && count < MAX_ADDRESSES; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == family && (one->ifa_flags & IFF_UP) &&
        !(one->ifa_flags & IFF_LOOPBACK) && is_chosen(one->ifa_name) == chosen)
      count += take_address(one->ifa_addr, &out[count]);
  return count;
}

// Finds this host's addresses, the most useful one for others first: IPv4 comes before IPv6. Returns how many.
static size_t find_addresses(union address out[MAX_ADDRESSES]) {
  struct ifaddrs *list = NULL;
  size_t count = 0;
  if (getifaddrs(&list))
    list = NULL;
  for (int chosen = 1; chosen >= 0; chosen--) {
    count = add_addresses(list, AF_INET, chosen, out, count);
    count = add_addresses(list, AF_INET6, chosen, out, count);
  }
  if (list)
    freeifaddrs(list);
  return count;
}

static bool write_address(const union address *address, char *out, size_t cap) {
  size_t size;
  const void *bytes = bytes_of(&address->any, &size);
  return inet_ntop(address->any.sa_family, bytes, out, (socklen_t)cap) != NULL;
}

bool run_host_address(char *out, size_t cap) {
  union address own[MAX_ADDRESSES];
  return find_addresses(own) > 0 && write_address(&own[0], out, cap);
}

const char *run_any_address(void) {
  union address own[MAX_ADDRESSES];
  size_t count = find_addresses(own);
  for (size_t i = 0; i < count; i++)
    if (own[i].any.sa_family == AF_INET)
      return "0.0.0.0";
  return count > 0 ? "::" : "0.0.0.0";
}

static bool answers(union address to, uint16_t port) {
  if (to.any.sa_family == AF_INET)
    to.v4.sin_port = htons(port);
  else
    to.v6.sin6_port = htons(port);
  int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected = fd >= 0 && connect(fd, &to.any, size_of(&to)) == 0; // to this host, so it does not block
  if (fd >= 0)
    close(fd);
  return connected;
}

static const char *const loopback[] = {"127.0.0.1", "localhost", "[::1]", NULL};
static const char *const all[] = {"0.0.0.0", "[::]", NULL}; // at which a store listens on all addresses of its host

// The text after one of the names, from the colon on; NULL: `host` begins with none of the names.
static const char *behind(const char *const *names, const char *host) {
  for (; *names; names++) {
    size_t size = strlen(*names);
    if (strncmp(host, *names, size) == 0 && host[size] == ':')
      return host + size;
  }
  return NULL;
}

static const char *host_of(const char *url) {
  const char *scheme = strstr(url, "://"), *end = strchr(url, ',');
  return scheme && (!end || scheme < end) ? scheme + 3 : url;
}

bool run_url_is_loopback(const char *url) {
  return behind(loopback, host_of(url)) != NULL;
}

static void add_for_others(struct text *text, const char *url, size_t size) {
  union address own[MAX_ADDRESSES];
  const char *host = host_of(url), *at_all = behind(all, host), *port = at_all ? at_all : behind(loopback, host);
  char address[INET6_ADDRSTRLEN];
  size_t count = port ? find_addresses(own) : 0;
  for (size_t i = 0; i < count; i++) {
    if (!answers(own[i], (uint16_t)strtoul(port + 1, NULL, 10)) || !write_address(&own[i], address, sizeof address))
      continue;
    text_add(text, own[i].any.sa_family == AF_INET6 ? "%.*s[%s]%.*s" : "%.*s%s%.*s", (int)(host - url), url, address,
             (int)(url + size - port), port);
    return;
  }
  text_add_bytes(text, url, size);
}

char *run_url_for_others(const char *urls) {
  struct text text = {0};
  for (const char *at = urls;; at++) {
    size_t size = strcspn(at, ",");
    add_for_others(&text, at, size);
    at += size;
    if (!*at)
      return text_take(&text);
    text_add(&text, ",");
  }
}

int run_listen_failed(int err, const char *listen) {
  const char *text = weft_last_error();
  bool of_address = listen && strncmp(text + (*text == '\''), listen, strlen(listen)) == 0;
  return err == WEFT_ERR_INVALID && of_address ? fail_context(err, "--listen") : err;
}
