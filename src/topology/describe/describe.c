// The description of this host, as JSON.
#include "topology/describe/describe.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/boot_id.h"
#include "topology/describe/machine.h"

enum { LINE_SIZE = 256 };

// The model of the first processor; architectures that have no "model name" give none.
static char *read_cpu_model(char *out, size_t cap) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file)
    return NULL;
  char *model = NULL;
  while (!model && fgets(out, (int)cap, file)) {
    const char *colon = strchr(out, ':');
    if (colon && strncmp(out, "model name", strlen("model name")) == 0) {
      const char *text = colon + 1 + strspn(colon + 1, " \t");
      memmove(out, text, strlen(text) + 1);
      out[strcspn(out, "\n")] = '\0';
      model = out;
    }
  }
  fclose(file);
  return model;
}

// Text from a file may not be UTF-8; then it is left out.
static int add_text(json_t *out, const char *key, const char *text) {
  json_t *value = text ? json_string(text) : NULL;
  return value ? json_object_set_new(out, key, value) : 0;
}

static int add_host(json_t *out) {
  struct utsname name;
  uname(&name);
  char kernel[sizeof name.sysname + sizeof name.release + sizeof name.machine + 2];
  snprintf(kernel, sizeof kernel, "%s %s %s", name.sysname, name.release, name.machine);
  char boot[BOOT_ID_SIZE], model[LINE_SIZE];
  bool known = boot_id_read(boot) == 0;
  return add_text(out, "host", name.nodename) | add_text(out, "kernel", kernel) |
         add_text(out, "boot_id", known ? boot : NULL) |
         add_text(out, "cpu_model", read_cpu_model(model, sizeof model));
}

// The values that the C library reports.
static int add_basics(json_t *out) {
  cpu_set_t usable;
  long threads = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : sysconf(_SC_NPROCESSORS_ONLN);
  json_int_t memory = (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return json_object_set_new(out, "source", json_string("sysfs")) |
         json_object_set_new(out, "threads", json_integer(threads)) |
         json_object_set_new(out, "memory_bytes", json_integer(memory));
}

#ifndef WEFT_HAVE_HWLOC
int topology_add_machine(json_t *out) {
  (void)out;
  return 0;
}
#endif

json_t *topology_describe(void) {
  json_t *out = json_object();
  if (out && !add_host(out) && !add_basics(out) && !topology_add_machine(out) && !topology_add_interfaces(out))
    return out;
  json_decref(out);
  return NULL;
}
