// Registered memory of the transport shm.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "transport/shm/shm.h"

// Peers may map it if it cannot shrink under them.
static bool is_window(const struct transport_memory *memory, struct stat *status) {
  if (memory->fd < 0 || fstat(memory->fd, status) != 0)
    return false;
  int seals = fcntl(memory->fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) && (uint64_t)status->st_size >= memory->length &&
         (uint64_t)status->st_size - memory->length >= memory->fd_offset;
}

int shm_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **made) {
  struct shm_worker *worker = (struct shm_worker *)base;
  if (memory->kind != WEFT_MEMORY_HOST)
    return fail(WEFT_ERR_UNSUPPORTED, "shared memory is for host memory only");
  if (memory->length == 0 || (uintptr_t)memory->address + memory->length < (uintptr_t)memory->address)
    return fail(WEFT_ERR_INVALID, "a region of %llu bytes cannot be registered", (unsigned long long)memory->length);
  uint32_t gate = 0;
  int rc = shm_gate_take(worker, &gate);
  if (rc != 0)
    return rc;
  struct shm_region *region = calloc(1, sizeof *region);
  if (!region) {
    shm_gate_give(worker, gate);
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  }
  struct stat status;
  region->base.worker = base;
  region->base.memory = *memory;
  region->gate = gate;
  region->window = !worker->no_map && is_window(memory, &status);
  if (region->window) {
    region->device = status.st_dev;
    region->inode = status.st_ino;
  }
  region->next = worker->regions;
  region->link = &worker->regions;
  if (region->next)
    region->next->link = &region->next;
  worker->regions = region;
  region->id = shm_gate_open(worker, gate);
  *made = &region->base;
  return 0;
}

void shm_unreg(struct transport_region *base) {
  struct shm_region *region = (struct shm_region *)base;
  struct shm_worker *worker = (struct shm_worker *)base->worker;
  if (shm_gate_close(worker, region->gate))
    shm_gate_give(worker, region->gate);
  else // not used again
    log_warn("shm: a process was stopped in the middle of a transfer with a region that is now deregistered; it may "
             "still write there");
  *region->link = region->next;
  if (region->next)
    region->next->link = region->link;
  free(region);
}

int shm_pack(struct transport_region *base, void *bytes, size_t *size) {
  const struct shm_region *region = (const struct shm_region *)base;
  const struct shm_worker *worker = (const struct shm_worker *)base->worker;
  struct shm_key key = {.cookie = worker->home->cookie,
                        .id = region->id,
                        .address = (uintptr_t)base->memory.address,
                        .length = base->memory.length,
                        .device = region->device,
                        .inode = region->inode,
                        .fd_offset = region->window ? base->memory.fd_offset : 0,
                        .gate = region->gate,
                        .fd = region->window ? base->memory.fd : -1,
                        .read_only = base->memory.read_only};
  return shm_key_pack(worker->home, &key, bytes, size);
}
