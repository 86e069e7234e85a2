// The host, for `weft info`.
#include "cli/facts/facts.h"

#include "base/affinity.h"
#include "base/fail.h"
#include "ep/kernels/kernels.h"
#include "topology/choice/choice.h"
#include "topology/read/line.h"
#include "transport/file/cufile.h"
#include "transport/nics.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Makes a window as ranks do: a sealed memfd, mapped for sharing.
static int try_memfd(void) {
  enum { SIZE = 4096 };
  int fd = memfd_create("weft-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return fail_errno(errno, "memfd_create");
  int err = 0;
  if (ftruncate(fd, SIZE) != 0)
    err = fail_errno(errno, "sizing a memfd");
  else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    err = fail_errno(errno, "sealing a memfd");
  void *map = err ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!err && map == MAP_FAILED)
    err = fail_errno(errno, "mapping a memfd");
  if (map != MAP_FAILED)
    munmap(map, SIZE);
  close(fd);
  return err;
}

// What agents may use, tried now.
static void add_ways(json_t *list) {
  for (const char *const *name = transport_names(); *name; name++) {
    const struct transport *transport = NULL;
    char why[256] = "";
    int err = transport_find(*name, &transport);
    snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
    if (!err)
      err = transport->probe(why, sizeof why);
    struct transport_nics nics = {.why = ""};
    if (!err)
      transport_nics_choose(transport, TRANSPORT_ANY_GPU, &nics);
    json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:s}", "name", *name, "reach",
                                          transport ? transport->what : "", "available", err == 0, "reason",
                                          err ? why : "", "nics", nics.why));
  }
}

// GPUDirect Storage: a part of the transport file. Its driver is left closed: that takes long, and `weft doctor` does
// it.
static void add_cufile(json_t *list) {
  const struct cufile *cufile = NULL;
  char version[32] = "", reach[96];
  int err = cufile_load(&cufile);
  snprintf(reach, sizeof reach, "files and memory of GPUs%s%s", err ? "" : ", version ",
           err ? "" : cufile_version(cufile, version));
  json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s}", "name", "file by cuFile", "reach", reach, "available",
                                        err == 0, "reason", err ? weft_last_error() : ""));
}

json_t *cli_facts_transports(void) {
  json_t *variants = json_array();
  for (const struct ep_kernels *const *at = ep_kernels_all(); *at; at++)
    json_array_append_new(variants, json_string((*at)->name));
  int err = try_memfd();
  json_t *list = json_pack("[{s:s, s:s, s:b, s:s, s:s, s:o}]", "name", "shared memory (memfd)", "reach",
                           "ranks of one host", "available", err == 0, "reason", err ? weft_last_error() : "",
                           "kernels", ep_kernels_best()->name, "variants", variants);
  if (list) {
    add_ways(list);
    add_cufile(list);
  }
  return list;
}

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

json_t *cli_facts_limits(void) {
  json_t *list = json_array();
  if (!list)
    return NULL;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (add_limit(list, "cores online", json_integer(cores), "ranks beyond them take turns: times mean less") |
      add_rlimit(list, RLIMIT_NOFILE, "RLIMIT_NOFILE", "open files: a rank has a few for each connected peer") |
      add_rlimit(list, RLIMIT_NPROC, "RLIMIT_NPROC", "processes and threads of this user") |
      add_rlimit(list, RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "bytes of locked memory") |
      add_rlimit(list, RLIMIT_AS, "RLIMIT_AS", "bytes of address space of a process") |
      add_sysctl(list, "/proc/sys/vm/max_map_count", "mappings of a process: a rank has two for each connected peer") |
      add_sysctl(list, "/proc/sys/fs/file-max", "open files of the whole host") |
      add_sysctl(list, "/proc/sys/vm/nr_hugepages", "huge pages set aside")) {
    json_decref(list);
    return NULL;
  }
  return list;
}

json_t *cli_facts_threads(void) {
  struct near_place place;
  near_find(NULL, NULL, &place);
  return json_string(place.why);
}

json_t *cli_facts_choice(void) {
  struct topology_choice *choice = NULL;
  if (topology_choose(&choice, NULL) != 0)
    return json_pack("{s:b, s:s}", "known", 0, "error", weft_last_error());
  json_t *out = topology_choice_describe(choice);
  topology_choice_free(choice);
  return out;
}
