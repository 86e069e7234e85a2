// Network interfaces, from the kernel.
#include "topology/describe/machine.h"
#include "topology/read/line.h"

#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_SIZE = 128, LINE_SIZE = 64 };

static char *read_attribute(const char *interface, const char *attribute, char *out) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "/sys/class/net/%s/%s", interface, attribute);
  return topology_read_line(path, out, LINE_SIZE);
}

// Adds a positive number; a virtual interface has no speed, or -1.
static int add_number(json_t *out, const char *key, const char *text) {
  long long number = text ? strtoll(text, NULL, 10) : 0;
  return number > 0 ? json_object_set_new(out, key, json_integer(number)) : 0;
}

static json_t *describe(const char *interface) {
  char line[LINE_SIZE];
  const char *state = read_attribute(interface, "operstate", line);
  json_t *out = json_pack("{s:s, s:s*}", "name", interface, "state", state);
  if (!out)
    return NULL;
  if (add_number(out, "mtu", read_attribute(interface, "mtu", line)) ||
      add_number(out, "mbit_s", read_attribute(interface, "speed", line))) {
    json_decref(out);
    return NULL;
  }
  return out;
}

int topology_add_interfaces(json_t *out) {
  json_t *list = json_array();
  struct if_nameindex *interfaces = if_nameindex();
  bool failed = !list || (!interfaces && errno == ENOBUFS);
  for (struct if_nameindex *at = interfaces; at && at->if_index != 0; at++)
    failed |= json_array_append_new(list, describe(at->if_name)) != 0;
  if (interfaces)
    if_freenameindex(interfaces);
  failed |= json_object_set_new(out, "interfaces", list) != 0;
  return failed ? -1 : 0;
}
