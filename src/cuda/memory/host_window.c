// Windows in host memory, for peers on other hosts: pinned, and seen by kernels and by the host. They are handed on and
// not freed, since to free them would wait for kernels.
#include "cuda/kernels/layout.h"
#include "cuda/plugin.h"

// In the window itself.
struct cuda_host_spare {
  struct cuda_host_spare *next;
  size_t size;
};

static void *take_spare(struct device *device, size_t size) {
  struct cuda_host_spare *found = NULL;
  pthread_mutex_lock(&device->lock);
  for (struct cuda_host_spare **at = &device->host_spares; *at && !found; at = &(*at)->next)
    if ((*at)->size == size) {
      found = *at;
      *at = found->next;
      break;
    }
  pthread_mutex_unlock(&device->lock);
  return found;
}

static void give_spare(struct device *device, void *memory, size_t size) {
  struct cuda_host_spare *spare = memory;
  pthread_mutex_lock(&device->lock);
  *spare = (struct cuda_host_spare){.next = device->host_spares, .size = size};
  device->host_spares = spare;
  pthread_mutex_unlock(&device->lock);
}

int cuda_host_window_create(struct device *device, size_t size, struct device_window *window, void **host, char *why) {
  struct cuda_guard guard;
  void *seen = NULL, *made = size < sizeof(struct cuda_host_spare) ? NULL : take_spare(device, size);
  int rc = size < sizeof(struct cuda_host_spare)
               ? cuda_why(why, WEFT_ERR_INVALID, "a window of %zu bytes is too small", size)
               : cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  if (!made)
    rc = cuda_check(why, cudaHostAlloc(&made, size, cudaHostAllocPortable | cudaHostAllocMapped),
                    "cannot pin host memory for a window");
  if (rc == 0) {
    rc = cuda_check(why, cudaHostGetDevicePointer(&seen, made, 0), "the device cannot map pinned host memory");
    if (rc != 0)
      give_spare(device, made, size);
  }
  cuda_leave(&guard);
  if (rc != 0)
    return rc;
  cuda_area_init(made, size);
  __atomic_store_n(&device->strict, true, __ATOMIC_RELEASE); // lines may not come whole over PCIe: see kernels/layout.h
  __atomic_fetch_add(&device->host_windows, 1, __ATOMIC_RELAXED);
  *window = (struct device_window){.memory = seen, .size = size};
  *host = made;
  return 0;
}

void cuda_host_window_release(struct device *device, struct device_window *window, void *host) {
  if (host) {
    give_spare(device, host, window->size);
    __atomic_fetch_sub(&device->host_windows, 1, __ATOMIC_RELAXED);
  }
  *window = (struct device_window){0};
}
