// Limits of this host, its NICs, and the processors of threads, for `weft info`.
#include "cli/info/facts.h"

#include "base/affinity.h"
#include "base/fail.h"
#include "topology/choice/choice.h"
#include "topology/read/line.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static int add_limit(json_t *list, const char *name, json_t *value, const char *meaning) {
  return json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "name", name, "value", value, "meaning", meaning));
}

static int add_rlimit(json_t *list, __rlimit_resource_t resource, const char *name, const char *meaning) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0)
    return 0;
  json_t *value = limit.rlim_cur == RLIM_INFINITY ? json_null() : json_integer((json_int_t)limit.rlim_cur);
  return add_limit(list, name, value, meaning);
}

static int add_sysctl(json_t *list, const char *path, const char *meaning) {
  char line[64];
  if (!topology_read_line(path, line, sizeof line))
    return 0;
  return add_limit(list, path, json_integer(strtoll(line, NULL, 10)), meaning);
}

json_t *cli_info_limits(void) {
  json_t *list = json_array();
  if (!list)
    return NULL;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (add_limit(list, "cores online", json_integer(cores),
                "if there are more ranks than cores, ranks share cores, and times mean less") |
      add_rlimit(list, RLIMIT_NOFILE, "RLIMIT_NOFILE", "open files: a rank needs a few for each connected peer") |
      add_rlimit(list, RLIMIT_NPROC, "RLIMIT_NPROC", "processes and threads of this user") |
      add_rlimit(list, RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "bytes of locked memory") |
      add_rlimit(list, RLIMIT_AS, "RLIMIT_AS", "bytes of address space of a process") |
      add_sysctl(list, "/proc/sys/vm/max_map_count",
                 "mappings of a process: a rank needs two for each connected peer") |
      add_sysctl(list, "/proc/sys/fs/file-max", "open files of the whole host") |
      add_sysctl(list, "/proc/sys/vm/nr_hugepages", "huge pages set aside")) {
    json_decref(list);
    return NULL;
  }
  return list;
}

json_t *cli_info_threads(void) {
  struct affinity_place place;
  affinity_find(NULL, NULL, &place);
  return json_string(place.why);
}

json_t *cli_info_choice(void) {
  struct topology_choice *choice = NULL;
  if (topology_choose(&choice, NULL) != 0)
    return json_pack("{s:b, s:s}", "known", 0, "error", weft_last_error());
  json_t *out = topology_choice_describe(choice);
  topology_choice_free(choice);
  return out;
}
