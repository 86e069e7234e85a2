// Regions of an agent: given to all workers that can do something with them.
#include "agent/memory/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/memory/mapped.h"
#include "agent/memory/region_index.h"
#include "agent/progress/submit.h"
#include "base/fail.h"
#include "base/sized.h"

const char *agent_kind_name(enum weft_memory_kind kind) {
  static const char *const names[TRANSPORT_KINDS] = {"host memory", "CUDA memory", "a file", "an object"};
  return (unsigned)kind < TRANSPORT_KINDS ? names[kind] : "unknown memory";
}

const char *agent_region_name(const struct agent_region *region, char *text, size_t size) {
  if (region->length == UINT64_MAX)
    snprintf(text, size, "region %" PRIu64 " (%s)", region->id, agent_kind_name(region->kind));
  else
    snprintf(text, size, "region %" PRIu64 " (%s, %" PRIu64 " bytes from 0x%" PRIx64 " on)", region->id,
             agent_kind_name(region->kind), region->length, region->address);
  return text;
}

void agent_region_keep_why(struct agent_region *region, uint32_t worker) {
  free(region->why[worker]);
  region->why[worker] = strdup(weft_last_error()); // NULL: then the reason is lost
}

void agent_set_next_region(weft_agent_t *agent, weft_region_t next) {
  pthread_mutex_lock(&agent->lock);
  agent->next_region = next;
  pthread_mutex_unlock(&agent->lock);
}

// Each given member has its flag, so that an unintended 0 is taken neither as a descriptor nor as a GPU.
static int check_flags(const struct weft_agent_memory *memory) {
  const uint32_t known = WEFT_MEMORY_READ_ONLY | WEFT_MEMORY_NO_METADATA | WEFT_MEMORY_FD | WEFT_MEMORY_DEVICE;
  bool fd = memory->flags & WEFT_MEMORY_FD, device = memory->flags & WEFT_MEMORY_DEVICE;
  if (memory->flags & ~known)
    return fail(WEFT_ERR_INVALID, "flags of the memory are 0x%x, and 0x%x is none of enum weft_memory_flag",
                memory->flags, memory->flags & ~known);
  if (fd ? memory->kind != WEFT_MEMORY_FILE || memory->fd < 0 : memory->fd != 0)
    return fail(WEFT_ERR_INVALID, "fd is %d %s WEFT_MEMORY_FD, which says that fd is the descriptor of a file",
                memory->fd, fd ? "with" : "without");
  if (device ? memory->kind != WEFT_MEMORY_CUDA || memory->device < 0 : memory->device != 0)
    return fail(WEFT_ERR_INVALID, "device is %d %s WEFT_MEMORY_DEVICE, which says that device is the index of a GPU",
                memory->device, device ? "with" : "without");
  return 0;
}

int agent_memory_check(const struct weft_agent_memory *memory) {
  int rc = check_flags(memory);
  if (rc != 0)
    return rc;
  switch (memory->kind) {
  case WEFT_MEMORY_HOST:
  case WEFT_MEMORY_CUDA:
    if (!memory->address || memory->length == 0)
      return fail(WEFT_ERR_INVALID, "memory needs an address and a length; they are %p and %" PRIu64, memory->address,
                  memory->length);
    if ((uintptr_t)memory->address > UINT64_MAX - memory->length)
      return fail(WEFT_ERR_INVALID, "%" PRIu64 " bytes from %p on go beyond the end of all addresses", memory->length,
                  memory->address);
    return 0;
  case WEFT_MEMORY_FILE:
    if (!(memory->flags & WEFT_MEMORY_FD) && !memory->path)
      return fail(WEFT_ERR_INVALID, "a file needs a descriptor, with WEFT_MEMORY_FD, or a path");
    return 0;
  case WEFT_MEMORY_OBJECT:
    if (!memory->path || !strchr(memory->path, '/'))
      return fail(WEFT_ERR_INVALID, "an object's path is \"bucket/key\", not \"%s\"",
                  memory->path ? memory->path : "(NULL)");
    return 0;
  default:
    return fail(WEFT_ERR_INVALID, "%d is not a kind of memory", (int)memory->kind);
  }
}

// Refuses memory that is not mapped: a later transfer that touched it would end the process by a signal.
static int check_mapped(const struct weft_agent_memory *memory) {
  uint64_t good = mapped_bytes((uintptr_t)memory->address, memory->length);
  if (good == memory->length)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "of the %" PRIu64 " bytes from %p on the one at %p is not mapped, nor may those behind it be",
              memory->length, memory->address, (void *)((uintptr_t)memory->address + good));
}

// Opens the file, copies the path.
static int hold(struct agent_region *region, const struct weft_agent_memory *memory) {
  region->fd = memory->flags & WEFT_MEMORY_FD ? memory->fd : -1;
  if (memory->path && memory->kind >= WEFT_MEMORY_FILE) {
    region->path = strdup(memory->path);
    if (!region->path)
      return fail(WEFT_ERR_NOMEM, "no memory for the path %s", memory->path);
  }
  if (memory->kind == WEFT_MEMORY_FILE && region->fd < 0) {
    struct stat info; // opening a pipe or a terminal may wait for its other side, without end
    if (stat(memory->path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode))
      return fail(WEFT_ERR_INVALID, "%s is neither a regular file nor a block device", memory->path);
    int flags = region->read_only ? O_RDONLY : O_RDWR | O_CREAT;
    region->fd = open(memory->path, flags | O_CLOEXEC, 0666);
    if (region->fd < 0)
      return fail_errno(errno, "cannot open %s", memory->path);
    region->owns_fd = true;
  }
  return 0;
}

void agent_region_free(weft_agent_t *agent, struct agent_region *region) {
  if (region->of->id != WEFT_PEER_SELF)
    agent->foreign--;
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    const struct transport *transport = agent->workers[i].transport;
    if (region->remote[i])
      transport->release(region->remote[i]);
    if (region->local[i])
      transport->unreg(region->local[i]);
  }
  for (uint32_t i = 0; i < AGENT_MAX_WORKERS; i++) {
    free(region->why[i]);
    free((void *)(uintptr_t)region->keys[i].bytes);
  }
  agent_memory_free(region);
  if (region->owns_fd)
    close(region->fd);
  free(region->path);
  free(region);
}

// [lock]
static void free_alone(weft_agent_t *agent, struct agent_region *region) {
  agent_workers_lock(agent);
  agent_region_free(agent, region);
  agent_workers_unlock(agent);
}

// Frees a region that was not added. [takes lock]
static void drop(weft_agent_t *agent, struct agent_region *region) {
  pthread_mutex_lock(&agent->lock);
  free_alone(agent, region);
  pthread_mutex_unlock(&agent->lock);
}

// Takes `region` over: on a failure it is freed. [lock]
static int add_locked(weft_agent_t *agent, struct agent_region *region) {
  int rc = 0;
  if (agent->next_region >= UINT64_MAX)
    rc = fail(WEFT_ERR_LIMIT, "all ids of regions have been used; close the agent and open it again");
  if (rc == 0)
    rc = agent_ranges_reserve(&agent->self.regions, 1);
  if (rc == 0)
    rc = agent_region_enroll(agent, region);
  if (rc != 0) {
    free_alone(agent, region);
    return rc;
  }
  region->id = agent->next_region++;
  agent_ranges_add(&agent->self.regions, &region, 1);
  agent->change += !region->no_metadata;
  return 0;
}

static int add(weft_agent_t *agent, struct agent_region *region, weft_region_t *id) {
  bool published = !region->no_metadata;
  pthread_mutex_lock(&agent->lock);
  int rc = add_locked(agent, region);
  if (rc == 0)
    *id = region->id;
  pthread_mutex_unlock(&agent->lock);
  if (rc == 0 && published)
    agent->hooks->regions_changed(agent);
  return rc;
}

// The workers of the transports that are named; loopback within the agent is always one. [any]
static int choose_workers(const weft_agent_t *agent, const char *names, uint32_t *only) {
  *only = names ? 1 : 0;
  for (const char *name = names; name && *name;) {
    size_t length = strcspn(name, ",");
    uint32_t i = 0;
    while (i < agent->num_workers && (strlen(agent->workers[i].transport->name) != length ||
                                      strncmp(agent->workers[i].transport->name, name, length) != 0))
      i++;
    if (length == 0)
      return fail(WEFT_ERR_INVALID, "transports is not a list of names like \"shm,ucx\": \"%s\"", names);
    if (i == agent->num_workers)
      return fail(WEFT_ERR_UNSUPPORTED, "this agent has no transport %.*s, which the memory's transports name",
                  (int)length, name);
    *only |= 1u << i;
    name += length + (name[length] == ',');
  }
  return 0;
}

int weft_agent_register(weft_agent_t *agent, const struct weft_agent_memory *given, weft_region_t *region) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!region)
    return fail(WEFT_ERR_INVALID, "the region is NULL");
  struct weft_agent_memory copy;
  const struct weft_agent_memory *memory = SIZED_READ(given, &copy, transports, "weft_agent_memory");
  uint32_t only = 0;
  int rc = memory ? agent_memory_check(memory) : sized_refusal(given, sizeof copy);
  if (rc == 0)
    rc = choose_workers(agent, memory->transports, &only);
  if (rc != 0)
    return rc;
  struct agent_region *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  bool storage = memory->kind >= WEFT_MEMORY_FILE;
  made->of = &agent->self;
  made->kind = memory->kind;
  made->address = storage ? 0 : (uintptr_t)memory->address;
  made->length = storage && memory->length == 0 ? UINT64_MAX : memory->length;
  made->device = memory->flags & WEFT_MEMORY_DEVICE ? memory->device : -1;
  made->only = only;
  made->read_only = memory->flags & WEFT_MEMORY_READ_ONLY;
  made->no_metadata = memory->flags & WEFT_MEMORY_NO_METADATA;
  rc = memory->kind == WEFT_MEMORY_HOST ? check_mapped(memory) : 0;
  if (rc == 0)
    rc = hold(made, memory);
  if (rc != 0) {
    drop(agent, made);
    return rc;
  }
  return add(agent, made, region);
}

int weft_agent_allocate(weft_agent_t *agent, enum weft_memory_kind kind, uint64_t length, int32_t device,
                        weft_region_t *region, void **address) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!region || !address || length == 0)
    return fail(WEFT_ERR_INVALID, "the region or the address is NULL, or the length is 0");
  if (kind != WEFT_MEMORY_HOST && kind != WEFT_MEMORY_CUDA)
    return fail(WEFT_ERR_UNSUPPORTED, "%s is not allocated: register it", agent_kind_name(kind));
  struct agent_region *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  made->of = &agent->self;
  made->kind = kind;
  made->length = length;
  made->device = kind == WEFT_MEMORY_CUDA ? device : -1;
  int rc = agent_memory_make(made);
  if (rc != 0) {
    drop(agent, made);
    return rc;
  }
  void *memory = (void *)(uintptr_t)made->address;
  rc = add(agent, made, region);
  if (rc == 0)
    *address = memory;
  return rc;
}

static bool list_has(const struct weft_dlist *list, const struct agent_region *region) {
  for (uint32_t i = 0; i < list->num_regions; i++)
    if (list->regions[i] == region)
      return true;
  return false;
}

static int fail_in_use(weft_agent_t *agent, const struct agent_region *region) {
  const struct weft_dlist *user = NULL;
  for (const struct weft_dlist *list = agent->self.lists; list && !user; list = list->next)
    if (list_has(list, region))
      user = list;
  uint32_t flying = 0;
  for (struct weft_transfer *t = agent->transfers; t; t = t->next)
    flying += agent_transfer_flies(t) && (list_has(t->local, region) || list_has(t->remote, region));
  char name[120];
  return fail(
      WEFT_ERR_BUSY,
      "%s is in use by %u list%s, one of %u descriptors with %u transfer%s; %u transfer%s in flight. Free these "
      "first",
      agent_region_name(region, name, sizeof name), region->lists, region->lists == 1 ? "" : "s",
      user ? user->count : 0, user ? user->transfers : 0, user && user->transfers == 1 ? "" : "s", flying,
      flying == 1 ? "" : "s");
}

int weft_agent_deregister(weft_agent_t *agent, weft_region_t id) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  pthread_mutex_lock(&agent->lock);
  struct agent_region *region = agent_ranges_get(&agent->self.regions, id);
  int rc = 0;
  bool published = false;
  if (!region) {
    rc = fail(WEFT_ERR_NOT_FOUND, "there is no region %" PRIu64 "%s", id,
              id > 0 && id < agent->next_region ? " any more" : "");
  } else if (region->lists > 0) {
    rc = fail_in_use(agent, region);
  } else {
    published = !region->no_metadata;
    if (region->described)
      agent->hooks->region_gone(agent, region->id);
    agent->change += published;
    agent_ranges_remove(&agent->self.regions, region);
    free_alone(agent, region);
  }
  pthread_mutex_unlock(&agent->lock);
  if (published)
    agent->hooks->regions_changed(agent);
  return rc;
}
