// Windows in host memory, for peers on other hosts. They are pinned, and both kernels and the host access them. They
// are used again and not freed, since freeing would wait for kernels.
#include "cuda/kernels/layout.h"
#include "cuda/memory/host_memory.h"
#include "cuda/plugin.h"

// This struct is stored in the free window, in place of the window's head: neighbours may still read its rows, but
// never its head.
struct cuda_host_spare {
  struct cuda_host_spare *next;
  size_t size;
  int fd; // -1: only this process can map it
};

// A window that neighbours still map must not be used: they would read the data of its next link.
static bool will_do(const struct cuda_host_spare *spare, size_t size, bool shared) {
  return spare->size == size && (spare->fd >= 0) == shared && (!shared || !cuda_host_memory_is_read(spare->fd));
}

static void *take_spare(struct device *device, size_t size, bool shared, int *fd) {
  struct cuda_host_spare *found = NULL;
  pthread_mutex_lock(&device->lock);
  for (struct cuda_host_spare **at = &device->host_spares; *at && !found; at = &(*at)->next)
    if (will_do(*at, size, shared)) {
      found = *at;
      *at = found->next;
      break;
    }
  pthread_mutex_unlock(&device->lock);
  if (found)
    *fd = found->fd;
  return found;
}

static void give_spare(struct device *device, void *memory, size_t size, int fd) {
  struct cuda_host_spare *spare = memory;
  pthread_mutex_lock(&device->lock);
  *spare = (struct cuda_host_spare){.next = device->host_spares, .size = size, .fd = fd};
  device->host_spares = spare;
  pthread_mutex_unlock(&device->lock);
}

// Gets memory; if `shared` and possible, other processes can map it by `*fd`. Within a guard.
static int take_memory(struct device *device, size_t size, bool shared, void **memory, int *fd, char *why) {
  *memory = shared ? take_spare(device, size, true, fd) : NULL;
  if (!*memory && shared)
    *memory = cuda_host_memory_shared(size, fd);
  if (!*memory)
    *memory = take_spare(device, size, false, fd);
  return *memory ? 0 : cuda_host_memory_own(size, memory, why);
}

int cuda_host_window_create(struct device *device, size_t size, struct device_window *window, void **host, int *fd,
                            char *why) {
  struct cuda_guard guard;
  void *seen = NULL, *made = NULL;
  int made_fd = -1;
  int rc = size < sizeof(struct cuda_host_spare)
               ? cuda_why(why, WEFT_ERR_INVALID, "a window of %zu bytes is too small", size)
               : cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = take_memory(device, size, fd != NULL, &made, &made_fd, why);
  if (rc == 0) {
    rc = cuda_check(why, cudaHostGetDevicePointer(&seen, made, 0), "the device cannot map pinned host memory");
    if (rc != 0)
      give_spare(device, made, size, made_fd);
  }
  cuda_leave(&guard);
  if (rc != 0)
    return rc;
  cuda_area_init(made, size);
  // lines may not arrive as a whole over PCIe: see kernels/layout.h
  __atomic_store_n(&device->strict, true, __ATOMIC_RELEASE);
  __atomic_fetch_add(&device->host_windows, 1, __ATOMIC_RELAXED);
  *window = (struct device_window){.memory = seen, .size = size, .handle = (uint64_t)(made_fd + 1)};
  *host = made;
  if (fd)
    *fd = made_fd;
  return 0;
}

void cuda_host_window_release(struct device *device, struct device_window *window, void *host) {
  if (host) {
    give_spare(device, host, window->size, (int)window->handle - 1);
    __atomic_fetch_sub(&device->host_windows, 1, __ATOMIC_RELAXED);
  }
  *window = (struct device_window){0};
}
