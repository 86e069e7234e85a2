// Memory that peers can map: a memfd, or a window on a GPU.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/memory/region.h"
#include "base/fail.h"

static int make_host(struct agent_region *region) {
  uint64_t length = region->length;
  struct rlimit files; // these limits apply to memfds, too, and exceeding them kills the process
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < length)
    return fail_errno(EFBIG, "cannot make a memfd of %" PRIu64 " bytes", length);
  region->fd = memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (region->fd < 0)
    return fail_errno(errno, "cannot make a memfd of %" PRIu64 " bytes", length);
  region->owns_fd = true;
  if (length > INT64_MAX || ftruncate(region->fd, (off_t)length) != 0)
    return fail_errno(length > INT64_MAX ? ENOMEM : errno, "cannot make a memfd of %" PRIu64 " bytes", length);
  if (fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) // else nobody maps it
    return fail_errno(errno, "cannot seal a memfd");
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "cannot map a memfd of %" PRIu64 " bytes", length);
  region->mapping = memory;
  region->address = (uintptr_t)memory;
  return 0;
}

static int make_cuda(struct agent_region *region) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  int rc = device_load(&api);
  if (rc != 0)
    return rc;
  region->device = region->device < 0 ? 0 : region->device;
  rc = api->open(region->device, &region->gpu, why);
  if (rc == 0)
    rc = api->window_create(region->gpu, region->length, &region->window, &region->fd, why);
  if (rc != 0)
    return device_fail(rc, "GPU memory", why);
  region->owns_fd = true;
  region->address = (uintptr_t)region->window.memory;
  return 0;
}

int agent_memory_make(struct agent_region *region) {
  return region->kind == WEFT_MEMORY_CUDA ? make_cuda(region) : make_host(region);
}

void agent_memory_free(struct agent_region *region) {
  const struct device_api *api;
  if (region->mapping)
    munmap(region->mapping, region->length);
  if (!region->gpu || device_load(&api) != 0)
    return;
  if (region->window.memory)
    api->window_release(region->gpu, &region->window);
  api->close(region->gpu);
}
