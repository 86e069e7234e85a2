// The transports, and the abilities of each on this host, for `weft info`. Each is probed now.
#include "cli/info/facts.h"

#include "base/fail.h"
#include "ep/kernels/kernels.h"
#include "transport/file/cufile.h"
#include "transport/nics.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
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

// Adds the transports of agents; each is probed now.
static void add_ways(json_t *list) {
  for (const char *const *name = transport_names(); *name; name++) {
    const struct transport *transport = NULL;
    char why[FAIL_DETAIL_SIZE] = "";
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

// GPUDirect Storage is a part of the transport `file`. Its driver is not opened here, since that takes long; `weft
// doctor` does it.
static void add_cufile(json_t *list) {
  const struct cufile *cufile = NULL;
  char version[32] = "", reach[96];
  int err = cufile_load(&cufile);
  snprintf(reach, sizeof reach, "files and memory of GPUs%s%s", err ? "" : ", version ",
           err ? "" : cufile_version(cufile, version));
  json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s}", "name", "file by cuFile", "reach", reach, "available",
                                        err == 0, "reason", err ? weft_last_error() : ""));
}

json_t *cli_info_transports(void) {
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
