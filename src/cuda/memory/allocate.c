// Plain memory of a device. It comes from a pool, since cudaMalloc and cudaFree may wait for kernels, and a kernel of
// another rank may wait for the rank that would wait here.
#include "cuda/driver/driver.h"
#include "cuda/kernels/layout.h"
#include "cuda/plugin.h"

#include <string.h>

// Fills the first `zeros` bytes with zeros and the rest with ones. Within a guard.
static int clear(struct device *device, char *memory, size_t zeros, size_t size, char *why) {
  cudaError_t error = cudaSuccess;
  for (size_t at = 0, piece; at < size && error == cudaSuccess; at += piece) {
    size_t left = at < zeros ? zeros - at : size - at;
    piece = left < CUDA_FILL_BYTES ? left : CUDA_FILL_BYTES;
    error = cudaMemcpyAsync(memory + at, device->fill_source + (at < zeros ? 0 : CUDA_FILL_BYTES), piece,
                            cudaMemcpyHostToDevice, device->stream);
  }
  int rc = cuda_check(why, error, "cannot clear device memory");
  return rc ? rc : cuda_await(device->stream, CUDA_OWN_WORK_MS * (uint64_t)1000000, "clearing device memory", why);
}

int cuda_clear_area(struct device *device, void *area, size_t size, char *why) {
  size_t head = sizeof(struct cuda_area_head);
  return clear(device, area, size < head ? size : head, size, why);
}

int cuda_zero(struct device *device, void *memory, size_t size, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = clear(device, memory, size, size, why);
  cuda_leave(&guard);
  return rc;
}

static int allocate(struct device *device, size_t size, bool area, void **memory, char *why) {
  struct cuda_guard guard;
  void *made = NULL;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  cudaError_t error = cudaMallocFromPoolAsync(&made, size ? size : 1, device->pool, device->stream);
  rc = cuda_check(why, error, "cannot allocate device memory");
  if (error == cudaErrorMemoryAllocation)
    rc = cuda_why(why, WEFT_ERR_NOMEM, "device %d has no %zu bytes left (%s)", device->index, size, device->info.name);
  if (rc == 0)
    rc = area ? cuda_clear_area(device, made, size, why) : clear(device, made, size, size, why);
  if (rc != 0 && made)
    cudaFreeAsync(made, device->stream);
  cuda_leave(&guard);
  if (rc == 0)
    *memory = made;
  return rc;
}

int cuda_allocate(struct device *device, size_t size, void **memory, char *why) {
  return allocate(device, size, false, memory, why);
}

int cuda_allocate_area(struct device *device, size_t size, void **memory, char *why) {
  return allocate(device, size, true, memory, why);
}

void cuda_release(struct device *device, void *memory) {
  struct cuda_guard guard;
  if (!memory || cuda_enter(device, &guard, NULL) != 0)
    return;
  cudaFreeAsync(memory, device->stream);
  cudaGetLastError();
  cuda_leave(&guard);
}

// A piece of pinned memory that no engine uses.
struct cuda_spare {
  struct cuda_spare *next;
};

int cuda_pin(struct device *device, void **memory, char *why) {
  pthread_mutex_lock(&device->lock);
  struct cuda_spare *spare = device->spares;
  if (spare)
    device->spares = spare->next;
  pthread_mutex_unlock(&device->lock);
  void *made = spare;
  int rc = 0;
  if (!spare)
    rc = cuda_check(why, cudaHostAlloc(&made, CUDA_PINNED, cudaHostAllocPortable | cudaHostAllocMapped),
                    "cannot pin host memory");
  if (rc != 0)
    return rc;
  memset(made, 0, CUDA_PINNED);
  *memory = made;
  return 0;
}

void cuda_unpin(struct device *device, void *memory) {
  struct cuda_spare *spare = memory;
  if (!spare)
    return;
  pthread_mutex_lock(&device->lock);
  spare->next = device->spares;
  device->spares = spare;
  pthread_mutex_unlock(&device->lock);
}

int cuda_copy(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  uint64_t timeout = CUDA_OWN_WORK_MS * (uint64_t)1000000;
  if (wait)
    rc = cuda_check_capture(stream, why);
  if (rc == 0 && wait) // before the copy, since a copy into unpinned memory waits without a deadline
    rc = cuda_await(stream, timeout, "work before a copy", why);
  if (rc == 0)
    rc = cuda_check(why, cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream), "cannot copy");
  if (rc == 0 && wait)
    rc = cuda_await(stream, timeout, "a copy", why);
  cuda_leave(&guard);
  return rc;
}

int cuda_fill(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaMemsetAsync(memory, byte, size, stream), "cannot fill device memory");
  cuda_leave(&guard);
  return rc;
}

int cuda_owner(const void *memory, int *index, char *why) {
  struct cudaPointerAttributes attributes;
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  int rc = cuda_check(why, cudaPointerGetAttributes(&attributes, memory), "cannot find the device of this memory");
  if (entered)
    cuda_leave(&guard);
  if (rc != 0)
    return rc;
  bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  *index = device ? attributes.device : -1;
  return 0;
}

// Within a guard of the memory's device: the driver needs a current context.
static int find_extent(const void *memory, uint64_t *bytes, char *why) {
  CUdeviceptr base = 0;
  size_t size = 0;
  int rc = cuda_check_driver(why, cuda_driver(NULL)->cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)memory),
                             "cannot find the allocation of this memory");
  if (rc == 0)
    *bytes = base + size - (uintptr_t)memory;
  return rc;
}

int cuda_extent(const void *memory, int *index, uint64_t *bytes, char *why) {
  struct device *device;
  struct cuda_guard guard;
  int rc = cuda_driver(why) ? cuda_owner(memory, index, why) : WEFT_ERR_UNSUPPORTED;
  if (rc == 0 && *index >= 0)
    rc = cuda_open(*index, &device, why);
  if (rc != 0 || *index < 0)
    return rc;
  rc = cuda_enter(device, &guard, why);
  if (rc == 0) {
    rc = find_extent(memory, bytes, why);
    cuda_leave(&guard);
  }
  cuda_close(device);
  return rc;
}
