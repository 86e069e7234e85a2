// A build without hwloc: what the C library tells.
#include "topology/machine.h"

#include <sched.h>
#include <unistd.h>

int topology_add_machine(json_t *out) {
  cpu_set_t usable;
  long threads = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : sysconf(_SC_NPROCESSORS_ONLN);
  json_int_t memory = (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return json_object_set_new(out, "source", json_string("sysfs")) |
         json_object_set_new(out, "threads", json_integer(threads)) |
         json_object_set_new(out, "memory_bytes", json_integer(memory));
}
