// Finds the bound of a route.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits/host.h"

static void nobody_knows(struct limits_bound *bound, const char *name, const char *why) {
  *bound = (struct limits_bound){.gbps = -1};
  snprintf(bound->name, sizeof bound->name, "%s", name);
  snprintf(bound->detail, sizeof bound->detail, "%s", why);
}

static void take(struct limits_bound *bound, const struct limits_entry *entry) {
  *bound = (struct limits_bound){.gbps = entry->gbps, .measured = entry->measured};
  memcpy(bound->name, entry->name, sizeof bound->name);
  memcpy(bound->detail, entry->detail, sizeof bound->detail);
}

// Takes the slower of two things that the bytes pass; an unknown one does not count.
static void narrow(struct limits_bound *bound, const struct limits_bound *other) {
  if (other->gbps > 0 && (bound->gbps <= 0 || other->gbps < bound->gbps))
    *bound = *other;
}

// Takes the faster of two routes that the bytes may take; if one is unknown, the result is unknown.
static void widen(struct limits_bound *bound, const struct limits_bound *other) {
  if (bound->gbps > 0 && (other->gbps <= 0 || other->gbps > bound->gbps))
    *bound = *other;
}

// --- host memory ---

static void of_copies(const struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  uint32_t pairs = route->pairs > 0 ? route->pairs : 1;
  const struct limits_entry *entry =
      limits_table_copy(&limits->table, pairs * route->copiers, pairs * route->working_set);
  if (entry)
    take(bound, entry);
  else
    nobody_knows(bound, "host copy", "not measured on this host: 'weft bench limits' does that");
}

static void of_loopback(const struct limits *limits, struct limits_bound *bound) {
  const struct limits_entry *entry = limits_table_find(&limits->table, LIMITS_LOOPBACK, NULL, NULL);
  if (entry)
    take(bound, entry);
  else
    nobody_knows(bound, "loopback tcp", "not measured on this host: 'weft bench limits' does that");
}

// --- networks ---

static bool names(const char *list, const char *name) {
  size_t size = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == ':' || !at[size])) // mlx5_0:1 is a port of it
      return true;
  return false;
}

static const char *origin_of(const struct limits_entry *entry) {
  return entry->measured ? "measured" : "described";
}

// Adds up all named NICs, or, if none is named, all that have a link: no transfer is faster than all of them together.
static void of_nics(const struct limits *limits, const char *devices, struct limits_bound *bound) {
  uint32_t count = 0;
  nobody_knows(bound, "network", "no NIC on the route reports the speed of its link");
  for (uint32_t i = 0; i < limits->table.count; i++) {
    const struct limits_entry *entry = &limits->table.list[i];
    if (entry->kind != LIMITS_NIC || (devices && *devices && !names(devices, entry->device)))
      continue;
    if (count++ == 0) {
      take(bound, entry);
      continue;
    }
    bound->gbps += entry->gbps;
    snprintf(bound->name, sizeof bound->name, "%u nics", count);
    snprintf(bound->detail, sizeof bound->detail, "the sum of %u NICs, %s among them with %g GB/s (%s)", count,
             entry->device, entry->gbps, origin_of(entry));
  }
}

// --- GPUs ---

static const struct limits_entry *gpu_entry(struct limits *limits, enum limits_kind kind, uint32_t a, uint32_t b) {
  char from[16], to[16];
  if (limits_know_gpus(limits) != 0 || !limits->places.gpu_address(a, from) || !limits->places.gpu_address(b, to))
    return NULL;
  return limits_table_find(&limits->table, kind, from, kind == LIMITS_GPU_LINK ? to : NULL);
}

static void of_gpu(struct limits *limits, enum limits_kind kind, uint32_t a, uint32_t b, struct limits_bound *bound) {
  const struct limits_entry *entry = gpu_entry(limits, kind, a, b);
  char name[LIMITS_NAME];
  snprintf(name, sizeof name, kind == LIMITS_GPU_LINK ? "gpu %u to %u" : "gpu %u", a, b);
  if (entry)
    take(bound, entry);
  else
    nobody_knows(
        bound, name,
        "neither NVML nor sysfs reports the speed of this GPU's links, and 'weft bench limits' has not measured them");
}

static void of_gpus(struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  const struct limits_end *from = &route->from, *to = &route->to;
  bool both = from->memory == LIMITS_CUDA && to->memory == LIMITS_CUDA;
  if (!both)
    of_gpu(limits, LIMITS_GPU_HOST, from->memory == LIMITS_CUDA ? from->gpu : to->gpu, 0, bound);
  else if (from->gpu == to->gpu)
    of_gpu(limits, LIMITS_GPU_MEMORY, from->gpu, to->gpu, bound);
  else
    of_gpu(limits, LIMITS_GPU_LINK, from->gpu, to->gpu, bound);
}

void limits_gpu_link_bound(struct limits *limits, struct limits_bound *bound) {
  const struct limits_entry *best = NULL;
  if (limits_know_gpus(limits) == 0)
    for (uint32_t i = 0; i < limits->table.count; i++)
      if (limits->table.list[i].kind == LIMITS_GPU_LINK && (!best || limits->table.list[i].gbps > best->gbps))
        best = &limits->table.list[i];
  if (best)
    take(bound, best);
  else
    nobody_knows(bound, "gpu link", "neither NVML nor sysfs reports the speed of the links of this host's GPUs");
}

// --- storage ---

static void of_file(const struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  bool reads = route->from.memory == LIMITS_FILE;
  const char *path = reads ? route->from.path : route->to.path;
  enum limits_kind kind = reads ? LIMITS_DISK_READ : LIMITS_DISK_WRITE;
  char device[LIMITS_DEVICE], key[LIMITS_DEVICE], detail[LIMITS_DETAIL];
  bool in_memory = false;
  if (!path || !limits_disk_of(path, device, &in_memory)) {
    nobody_knows(bound, "disk", "the file does not exist, so its disk is not known");
    return;
  }
  if (in_memory) {
    of_copies(limits, route, bound);
    return;
  }
  bool named = limits_disk_key(limits->hardware.root, device, key) == 0;
  const struct limits_entry *entry = named ? limits_table_find(&limits->table, kind, NULL, key) : NULL;
  if (entry) {
    take(bound, entry);
    return;
  }
  double gbps = limits_disk_gbps(limits->hardware.root, device, detail, sizeof detail);
  if (gbps < 0 && limits_table_find(&limits->table, kind, NULL, NULL))
    snprintf(detail, sizeof detail,
             "the kept bounds are of another disk than that of the file (%.20s), or of a disk that only its number "
             "identified before the host was restarted; 'weft bench limits --path' measures it",
             device);
  nobody_knows(bound, "disk", detail);
  snprintf(bound->name, sizeof bound->name, "disk %.20s", device);
  bound->gbps = gbps;
}

static bool is_loopback(const char *host) {
  return host && (strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0);
}

static void of_objects(const struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  const struct limits_end *store = route->from.memory == LIMITS_OBJECT ? &route->from : &route->to;
  if (!store->host)
    nobody_knows(bound, "object store", "the place of the store is not known");
  else if (is_loopback(store->host))
    of_loopback(limits, bound);
  else
    of_nics(limits, route->devices, bound);
}

// --- all of them ---

static bool is(const char *name, const char *wanted) {
  return name && strcmp(name, wanted) == 0;
}

static bool one_host(const struct limits_route *route) {
  const char *a = route->from.host, *b = route->to.host;
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool ends_in(const struct limits_route *route, enum limits_memory memory) {
  return route->from.memory == memory || route->to.memory == memory;
}

// Within a host libfabric uses TCP, or NICs that send to themselves, for which sysfs has the rate of the wire. Other
// libraries may use shared memory.
static void within_host(const struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  struct limits_bound nics;
  if (!is(route->transport, "ofi")) {
    of_copies(limits, route, bound);
    return;
  }
  of_loopback(limits, bound);
  of_nics(limits, route->devices, &nics);
  if (nics.gbps > 0)
    widen(bound, &nics);
}

void limits_route_bound(struct limits *limits, const struct limits_route *route, struct limits_bound *bound) {
  struct limits_bound network;
  if (ends_in(route, LIMITS_OBJECT)) {
    of_objects(limits, route, bound);
  } else if (ends_in(route, LIMITS_FILE)) {
    of_file(limits, route, bound);
  } else if (one_host(route)) {
    if (ends_in(route, LIMITS_CUDA))
      of_gpus(limits, route, bound);
    else
      within_host(limits, route, bound);
  } else if (is(route->transport, "cuda")) {
    nobody_knows(bound, "nvlink",
                 "the two GPUs are on two hosts of one NVLink domain, and only one of the hosts is known here");
  } else {
    of_nics(limits, route->devices, bound);
    if (ends_in(route, LIMITS_CUDA)) { // only the end on this host; the other host knows its own end
      bool here = route->from.memory == LIMITS_CUDA && !route->from.host;
      of_gpu(limits, LIMITS_GPU_HOST, here ? route->from.gpu : route->to.gpu, 0, &network);
      if (here || (route->to.memory == LIMITS_CUDA && !route->to.host))
        narrow(bound, &network);
    }
  }
}
