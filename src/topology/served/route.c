// The interface of the default route, from the kernel's tables for IPv4 and IPv6.
#include "topology/served/exports.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 512, PATH_SIZE = 256, ROUTE_UP = 1, ROUTE_REJECT = 0x200 };

struct route {
  char interface[TOPOLOGY_NAME];
  unsigned flags, metric;
  bool is_default;
};

// "eth0 00000000 010200C0 0003 0 0 0 00000000 ...": interface, destination, gateway, flags, two counts, metric, mask.
static bool parse_four(const char *line, struct route *route) {
  unsigned destination, mask;
  if (sscanf(line, "%31s %x %*x %x %*u %*u %u %x", route->interface, &destination, &route->flags, &route->metric,
             &mask) != 5)
    return false;
  route->is_default = destination == 0 && mask == 0;
  return true;
}

// Destination, length of its prefix, source, length, next hop, metric, two counts, flags, interface.
static bool parse_six(const char *line, struct route *route) {
  char destination[33];
  unsigned length;
  if (sscanf(line, "%32s %x %*s %*x %*s %x %*x %*x %x %31s", destination, &length, &route->metric, &route->flags,
             route->interface) != 5)
    return false;
  route->is_default = length == 0 && strspn(destination, "0") == 32;
  return true;
}

static bool find(const char *root, const char *path, bool (*parse)(const char *, struct route *),
                 char interface[TOPOLOGY_NAME]) {
  char full[PATH_SIZE], line[LINE_SIZE];
  snprintf(full, sizeof full, "%s%s", root, path);
  FILE *file = fopen(full, "re");
  struct route route, best = {.metric = UINT_MAX};
  while (file && fgets(line, sizeof line, file))
    if (parse(line, &route) && route.is_default && (route.flags & (ROUTE_UP | ROUTE_REJECT)) == ROUTE_UP &&
        route.metric < best.metric && strcmp(route.interface, "lo") != 0)
      best = route;
  if (file)
    fclose(file);
  memcpy(interface, best.interface, TOPOLOGY_NAME);
  return *interface;
}

bool topology_default_route(const char *root, char interface[TOPOLOGY_NAME]) {
  return find(root, "/proc/net/route", parse_four, interface) ||
         find(root, "/proc/net/ipv6_route", parse_six, interface);
}
