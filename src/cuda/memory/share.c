// Memory that other processes of the host map: with a handle of CUDA's IPC if CUDA's allocator made it, or with its
// descriptor if it is a window. A process that opens memory which it shares itself gets the original address.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <string.h>
#include <sys/random.h>

static const uint8_t no_handle[sizeof((struct device_share *)0)->handle];

// Identifies this process, even after another process has got the same process id.
static uint64_t own_process(void) {
  static uint64_t number;
  if (__atomic_load_n(&number, __ATOMIC_ACQUIRE) == 0) {
    uint64_t drawn = 0, none = 0;
    while (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn || drawn == 0)
      continue;
    __atomic_compare_exchange_n(&number, &none, drawn, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
  return __atomic_load_n(&number, __ATOMIC_ACQUIRE);
}

static bool is_window(const struct device_share *share) {
  return memcmp(share->handle, no_handle, sizeof no_handle) == 0;
}

// The handle names the whole allocation that the memory is a part of.
static int name_allocation(const void *memory, struct device_share *share, char *why) {
  CUdeviceptr base = 0;
  size_t size = 0;
  cudaIpcMemHandle_t handle;
  const struct cuda_driver *driver = cuda_driver(why);
  if (!driver)
    return WEFT_ERR_UNSUPPORTED;
  int rc = cuda_check_driver(why, driver->cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)memory),
                             "cannot find the allocation of this memory");
  if (rc != 0)
    return rc;
  cudaError_t error = cudaIpcGetMemHandle(&handle, (void *)(uintptr_t)base);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return cuda_why(why, WEFT_ERR_UNSUPPORTED,
                    "other processes cannot map this device memory (%s): want memory of cudaMalloc or of "
                    "weft_agent_allocate, not of a pool, nor managed",
                    cudaGetErrorString(error));
  }
  _Static_assert(sizeof handle == sizeof share->handle, "a handle of CUDA has 64 bytes");
  memcpy(share->handle, &handle, sizeof handle);
  share->offset = (uintptr_t)memory - (uintptr_t)base;
  return 0;
}

int cuda_share(const void *memory, uint64_t size, bool window, struct device_share *share, char *why) {
  struct device_share made = {.process = own_process(), .address = (uintptr_t)memory, .size = size};
  struct device_info info;
  struct cuda_guard guard;
  int index = -1;
  int rc = cuda_owner(memory, &index, why);
  if (rc == 0 && index < 0)
    rc = cuda_why(why, WEFT_ERR_INVALID, "%p is not device memory", memory);
  if (rc == 0)
    rc = cuda_describe(index, &info, why);
  if (rc != 0)
    return rc;
  memcpy(made.uuid, info.uuid, sizeof made.uuid);
  if (!window) {
    struct device *device;
    rc = cuda_open(index, &device, why);
    if (rc != 0)
      return rc;
    rc = cuda_enter(device, &guard, why);
    if (rc == 0) {
      rc = name_allocation(memory, &made, why);
      cuda_leave(&guard);
    }
    cuda_close(device);
  }
  if (rc == 0)
    *share = made;
  return rc;
}

// Memory of this process on another of its devices.
static int open_own(struct device *device, const struct device_share *share, char *why) {
  int owner = -1;
  int rc = cuda_owner((const void *)(uintptr_t)share->address, &owner, why);
  if (rc == 0)
    rc = cuda_check_peer(device->index, owner, why);
  if (rc != 0)
    return rc;
  cudaError_t error = cudaDeviceEnablePeerAccess(owner, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled)
    return cuda_check(why, error, "cannot enable peer access");
  cudaGetLastError();
  return 0;
}

// Checks that the memory is within the allocation of the handle, according to the driver: a kernel or copy that
// accesses memory beyond it would end all work of this process on the GPU.
static int check_range(const struct device_share *share, const void *base, char *why) {
  CUdeviceptr start = 0;
  size_t size = 0;
  const struct cuda_driver *driver = cuda_driver(why);
  if (!driver)
    return WEFT_ERR_UNSUPPORTED;
  int rc = cuda_check_driver(why, driver->cuMemGetAddressRange(&start, &size, (CUdeviceptr)(uintptr_t)base),
                             "cannot find the size of the peer's device memory");
  if (rc != 0)
    return rc;
  if ((uintptr_t)base == start && share->offset <= size && share->size <= size - share->offset)
    return 0;
  return cuda_why(why, WEFT_ERR_PROTOCOL,
                  "the peer's device memory has %zu bytes, but the peer names %llu bytes at offset %llu", size,
                  (unsigned long long)share->size, (unsigned long long)share->offset);
}

static int open_handle(const struct device_share *share, void **memory, char *why) {
  cudaIpcMemHandle_t handle;
  void *base = NULL;
  memcpy(&handle, share->handle, sizeof handle);
  int rc = cuda_check(why, cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess),
                      "cannot map the peer's device memory");
  if (rc != 0)
    return rc;
  rc = check_range(share, base, why);
  if (rc == 0)
    *memory = (char *)base + share->offset;
  else
    cudaIpcCloseMemHandle(base);
  return rc;
}

static bool is_own(const struct device *device, const struct device_share *share) {
  return share->process == own_process() && memcmp(share->uuid, device->info.uuid, sizeof share->uuid) == 0;
}

int cuda_share_open(struct device *device, const struct device_share *share, int fd, void **memory, char *why) {
  if (is_own(device, share)) {
    *memory = (void *)(uintptr_t)share->address;
    return 0;
  }
  if (is_window(share)) {
    struct device_window window;
    int rc = cuda_window_map(device, share->size, fd, &window, why);
    if (rc == 0)
      *memory = window.memory;
    return rc;
  }
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  if (share->process != own_process()) {
    rc = open_handle(share, memory, why);
  } else {
    rc = open_own(device, share, why);
    if (rc == 0)
      *memory = (void *)(uintptr_t)share->address;
  }
  cuda_leave(&guard);
  return rc;
}

void cuda_share_close(struct device *device, const struct device_share *share, void *memory) {
  struct cuda_guard guard;
  if (is_own(device, share))
    return;
  if (is_window(share)) {
    size_t size = (share->size + device->granularity - 1) / device->granularity * device->granularity;
    struct device_window window = {.memory = memory, .size = size};
    cuda_window_release(device, &window);
  } else if (share->process != own_process() && cuda_enter(device, &guard, NULL) == 0) {
    cudaIpcCloseMemHandle((char *)memory - share->offset);
    cudaGetLastError();
    cuda_leave(&guard);
  }
}
