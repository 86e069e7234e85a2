// Queries memory, a file or an object before it is registered.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/memory/mapped.h"
#include "agent/memory/region_index.h"
#include "base/fail.h"
#include "base/sized.h"

// --- by kind: sets THERE, length and device where there is something ---

static int query_host(const struct weft_agent_memory *memory, struct weft_memory_status *status) {
  status->length = mapped_bytes((uintptr_t)memory->address, memory->length);
  status->flags = status->length > 0 ? WEFT_MEMORY_THERE : 0u;
  return 0;
}

static int query_cuda(const struct weft_agent_memory *memory, struct weft_memory_status *status) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  uint64_t left = 0;
  int index = -1, rc = device_load(&api);
  if (rc == 0) {
    rc = api->extent(memory->address, &index, &left, why);
    rc = rc == 0 ? 0 : device_fail(rc, "GPU memory", why);
  }
  if (rc != 0 || index < 0)
    return rc;
  status->flags = WEFT_MEMORY_THERE;
  status->device = index;
  status->length = left < memory->length ? left : memory->length;
  return 0;
}

// Of a block device stat() gives no size.
static int query_device(const char *path, int fd, uint64_t *length) {
  int opened = fd >= 0 ? fd : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  int error = opened < 0 || ioctl(opened, BLKGETSIZE64, length) != 0 ? errno : 0;
  if (fd < 0 && opened >= 0)
    close(opened);
  if (error != 0 && fd >= 0)
    return fail_errno(error, "cannot read the size of the block device of descriptor %d", fd);
  return error == 0 ? 0 : fail_errno(error, "cannot read the size of the block device %s", path);
}

static int query_file(const struct weft_agent_memory *memory, struct weft_memory_status *status) {
  int fd = memory->flags & WEFT_MEMORY_FD ? memory->fd : -1;
  struct stat info;
  if (fd >= 0 && fstat(fd, &info) != 0)
    return fail_errno(errno, "cannot stat the file of descriptor %d", fd);
  if (fd < 0 && stat(memory->path, &info) != 0)
    return errno == ENOENT || errno == ENOTDIR ? 0 : fail_errno(errno, "cannot stat %s", memory->path);
  status->flags = WEFT_MEMORY_THERE;
  status->length = (uint64_t)info.st_size;
  return S_ISBLK(info.st_mode) ? query_device(memory->path, fd, &status->length) : 0;
}

static int query_object(weft_agent_t *agent, const struct weft_agent_memory *memory, struct weft_memory_status *status,
                        uint32_t timeout_ms) {
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    if (!worker->transport->query)
      continue;
    int rc = worker->transport->query(worker->worker, memory->path, timeout_ms, &status->length);
    status->flags = rc == 0 ? WEFT_MEMORY_THERE : 0u;
    return rc == WEFT_ERR_NOT_FOUND ? 0 : rc;
  }
  return agent_kind_unsupported(agent, memory->kind);
}

static int query(weft_agent_t *agent, const struct weft_agent_memory *memory, uint32_t timeout_ms,
                 struct weft_memory_status *status) {
  switch (memory->kind) {
  case WEFT_MEMORY_CUDA:
    return query_cuda(memory, status);
  case WEFT_MEMORY_FILE:
    return query_file(memory, status);
  case WEFT_MEMORY_OBJECT:
    return query_object(agent, memory, status, timeout_ms);
  default:
    return query_host(memory, status);
  }
}

// --- the region ---

// The oldest region of this file or object; for memory, the region that a descriptor without a region would use.
static const struct agent_region *find(const weft_agent_t *agent, const struct weft_agent_memory *memory) {
  const struct agent_ranges *own = &agent->self.regions;
  if (memory->kind < WEFT_MEMORY_FILE) {
    const struct agent_region *found = agent_ranges_find(own, (uintptr_t)memory->address, memory->length);
    return found && found->kind == memory->kind ? found : NULL;
  }
  for (uint32_t i = 0; memory->path && i < own->count; i++)
    if (own->by_id[i]->kind == memory->kind && own->by_id[i]->path && strcmp(own->by_id[i]->path, memory->path) == 0)
      return own->by_id[i];
  return NULL;
}

int weft_agent_query_memory(weft_agent_t *agent, const struct weft_agent_memory *given, uint32_t timeout_ms,
                            struct weft_memory_status *out) {
  int rc = agent_handle_check(agent);
  if (rc == 0)
    rc = sized_check_output(out, SIZED_END(struct weft_memory_status, region), "weft_memory_status");
  if (rc != 0)
    return rc;
  struct weft_agent_memory copy;
  struct weft_memory_status status = {.size = sizeof status, .device = -1};
  const struct weft_agent_memory *memory = SIZED_READ(given, &copy, transports, "weft_agent_memory");
  rc = memory ? agent_memory_check(memory) : sized_refusal(given, sizeof copy);
  if (rc == 0)
    rc = query(agent, memory, timeout_ms, &status);
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&agent->lock);
  const struct agent_region *region = find(agent, memory);
  status.region = region ? region->id : 0;
  pthread_mutex_unlock(&agent->lock);
  sized_write(out, &status, sizeof status);
  return 0;
}
