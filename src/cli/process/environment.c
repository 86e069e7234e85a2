// The environment variables that Weft knows besides those of options, as one table with the check of each.
#include "cli/process/environment.h"

#include "base/affinity.h"
#include "base/fail.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 256, HOST_ID_SIZE = 64 };

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const kernels[] = {"portable", "avx2", "avx512", "avx512-bf16", "neon", NULL};
static const char *const yes_or_no[] = {"yes", "no", NULL};
static const char *const transports[] = {"nvlink", "ofi", "ucx", "shm", "none", NULL};

static bool is_interface(const char *name) {
  return if_nametoindex(name) != 0;
}

static bool is_place(const char *name) {
  struct in6_addr address;
  return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1 || is_interface(name);
}

static bool is_name(const char *name) {
  return *name && !strpbrk(name, " \t\n");
}

// Checks each part of a list with commas.
static int check_list(const char *list, bool (*is_right)(const char *part), const char *wanted) {
  for (const char *at = list;; at++) {
    char part[NAME_SIZE];
    size_t size = strcspn(at, ",");
    if (size >= sizeof part)
      return fail(WEFT_ERR_INVALID, "a part of it has %zu characters, %d are allowed", size, NAME_SIZE - 1);
    memcpy(part, at, size);
    part[size] = '\0';
    if (!is_right(part))
      return fail(WEFT_ERR_INVALID, "\"%s\" is not %s", part, wanted);
    at += size;
    if (!*at)
      return 0;
  }
}

static int check_addresses(const char *list) {
  return check_list(list, is_place, "a numeric address; want addresses of this host, with commas between them");
}

static int check_interfaces(const char *list) {
  return check_list(list, is_place, "an interface of this host; want names as 'ip link' shows them, with commas");
}

// The choice of NICs checks whether such a NIC exists.
static int check_nics(const char *list) {
  return check_list(list + (*list == '^'), is_name, "the name of a NIC; want names with commas, and no blanks");
}

static int check_processors(const char *list) {
  cpu_set_t cpus;
  if (strcmp(list, "any") == 0 || (affinity_parse(list, &cpus) && CPU_COUNT(&cpus) > 0))
    return 0;
  return fail(WEFT_ERR_INVALID, "\"%s\" is not a list of processors; want one like 0-3,8, or any", list);
}

static int check_host_id(const char *id) {
  bool right = strlen(id) < HOST_ID_SIZE;
  for (const char *at = id; *at; at++)
    right &= isgraph((unsigned char)*at) && *at != '"' && *at != '\\';
  return right
             ? 0
             : fail(WEFT_ERR_INVALID, "\"%s\" is not a host id; want at most %d characters, without blanks and quotes",
                    id, HOST_ID_SIZE - 1);
}

static int check_file(const char *path) {
  if (*path != '/')
    return fail(WEFT_ERR_INVALID, "\"%s\" is not a full path; want one that begins with /", path);
  return access(path, F_OK) == 0 ? 0 : fail_errno(errno, "there is no file %s", path);
}

// clang-format off
const struct cli_variable cli_variables[] = {
  {.name = "WEFT_LOG", .preset = "warn", .choices = levels, .used_by = "elastic p2p serve",
   .help = "how much is logged on standard error: error, warn, info or debug"},
  {.name = "WEFT_EP_KERNELS", .preset = "the fastest variant that runs here", .choices = kernels, .used_by = "elastic",
   .help = "variant of the kernels: portable, avx2, avx512, avx512-bf16 or neon"},
  {.name = "WEFT_NICS", .preset = "those nearest to each GPU", .check = check_nics, .used_by = "elastic p2p env",
   .help = "NICs to choose among: names separated by commas, or ^ and the names to leave out"},
  {.name = "WEFT_CPUS", .preset = "near the GPU or NIC", .check = check_processors, .used_by = "elastic p2p",
   .help = "processors for the threads that drive transports: a list like 0-3,8 of processors that the process may "
   "use, or any"},
  {.name = "WEFT_EP_TRANSPORT", .preset = "NVLink, else the first transport that works", .choices = transports,
   .used_by = "elastic",
   .help = "how ranks reach ranks on other hosts: nvlink, ofi, ucx, none, or shm if all ranks are in fact on this "
   "host"},
  {.name = "WEFT_EP_ONCE", .preset = "yes", .choices = yes_or_no, .used_by = "elastic",
   .help = "whether a token is sent to another host only once for all ranks there, which copy it from each other: "
   "yes, or no if the network is faster than these copies"},
  {.name = "WEFT_ADDRESS", .preset = "all but loopback", .check = check_addresses, .used_by = "elastic",
   .help = "addresses of this host to which ranks on other hosts connect, separated by commas"},
  {.name = "WEFT_INTERFACE", .preset = "all but loopback", .check = check_interfaces, .used_by = "elastic",
   .help = "the same, but given by names of interfaces"},
  {.name = "WEFT_HOST_ID", .preset = "unset", .check = check_host_id, .used_by = "elastic",
   .help = "ranks with different values connect as if they were on different hosts"},
  // Without a plug-in its transports are missing: a command that has another transport goes on.
  {.name = "WEFT_CUDA_PLUGIN", .preset = "beside the library", .check = check_file,
   .help = "full path of the CUDA plug-in, libweft_cuda"},
  {.name = "WEFT_UCX_PLUGIN", .preset = "beside the library", .check = check_file,
   .help = "full path of the plug-in for UCX, libweft_ucx"},
  {.name = "WEFT_OFI_PLUGIN", .preset = "beside the library", .check = check_file,
   .help = "full path of the plug-in for libfabric, libweft_ofi"},
  {.name = "WEFT_TOPOLOGY_PLUGIN", .preset = "beside the library", .check = check_file,
   .help = "full path of the plug-in that chooses NICs, libweft_topology"},
  {.name = "WEFT_CUFILE", .preset = "libcufile.so.0",
   .help = "file of the library cuFile, with which the transport file reaches GPU memory; off: do not use it"},
  {.name = "WEFT_OFI_NICS", .preset = "the NICs of the GPU, or the nearest ones", .check = check_nics, .used_by =
   "elastic p2p",
   .help = "names of NICs, separated by commas: the transport ofi uses the first one that its provider has"},
  {.name = "WEFT_TOKEN_FILE", .preset = "unset",
   .help = "file of this user alone with the token in its first line, instead of WEFT_TOKEN"},
  {.name = "WEFT_TOKEN_FD", .preset = "unset",
   .help = "descriptor that the token is read from, and then closed, instead of WEFT_TOKEN"},
  {.name = "WEFT_PASSWORD_FILE", .preset = "unset",
   .help = "file of this user alone with the password, instead of WEFT_PASSWORD"},
  {.name = "WEFT_PASSWORD_FD", .preset = "unset",
   .help = "descriptor that the password is read from, instead of WEFT_PASSWORD"},
  {.name = "NO_COLOR", .preset = "unset", .help = "when not empty, nothing is coloured unless --color=always"},
  {.name = NULL},
};
// clang-format on
