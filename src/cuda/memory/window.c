// Windows: physical memory of a device that other processes map, with a file descriptor or with a fabric handle. A
// fabric handle is a name that is valid wherever NVLink and the IMEX channel of this process reach (NVIDIA's IMEX
// guide, "IMEX Channels"). Mappings keep the memory alive, even after the process that made it has ended. Neither
// mapping nor unmapping waits for a kernel. A new window is an empty area.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static size_t whole_pages(const struct device *device, size_t size) {
  return (size + device->granularity - 1) / device->granularity * device->granularity;
}

static int check(const struct device *device, size_t size, char *why) {
  if (device->granularity == 0)
    return cuda_why(why, WEFT_ERR_UNSUPPORTED, "memory of device %d (%s) cannot be shared by file descriptors",
                    device->index, device->info.name);
  if (size == 0 || size > device->info.memory_bytes)
    return cuda_why(why, WEFT_ERR_INVALID, "a window of %zu bytes: want 1 to the %llu that device %d has", size,
                    (unsigned long long)device->info.memory_bytes, device->index);
  return 0;
}

// Takes ownership of `handle`, also on failure: the mapping keeps the memory.
static int map(const struct cuda_driver *driver, const struct device *device, CUmemGenericAllocationHandle handle,
               size_t size, struct device_window *window, char *why) {
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address = 0;
  int rc = cuda_check_driver(why, driver->cuMemAddressReserve(&address, size, 0, 0, 0), "cannot reserve addresses");
  if (rc == 0) {
    rc = cuda_check_driver(why, driver->cuMemMap(address, size, 0, handle, 0), "cannot map a window");
    if (rc == 0) {
      rc =
          cuda_check_driver(why, driver->cuMemSetAccess(address, size, &access, 1), "cannot enable access to a window");
      if (rc != 0)
        driver->cuMemUnmap(address, size);
    }
    if (rc != 0)
      driver->cuMemAddressFree(address, size);
  }
  driver->cuMemRelease(handle);
  if (rc == 0)
    *window = (struct device_window){.memory = (void *)address, .size = size};
  return rc;
}

static int create_error(const struct device *device, CUresult result, size_t size, char *why) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return cuda_why(why, WEFT_ERR_NOMEM, "device %d has no %zu bytes left for a window", device->index, size);
  if (result == CUDA_ERROR_NOT_PERMITTED) // only fabric handles give this error
    return cuda_why(
        why, WEFT_ERR_UNSUPPORTED,
        "this process may use no IMEX channel, which memory for other hosts on NVLink needs: an administrator "
        "makes /dev/nvidia-caps-imex-channels/channel0");
  return cuda_check_driver(why, result, "cannot make a window");
}

// `exported`: an int or a CUmemFabricHandle, depending on `type`.
static int create(const struct cuda_driver *driver, struct device *device, size_t size, CUmemAllocationHandleType type,
                  struct device_window *window, void *exported, char *why) {
  CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .requestedHandleTypes = type,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index}};
  CUmemGenericAllocationHandle handle;
  CUresult result = driver->cuMemCreate(&handle, size, &props, 0);
  if (result != CUDA_SUCCESS)
    return create_error(device, result, size, why);
  int rc =
      cuda_check_driver(why, driver->cuMemExportToShareableHandle(exported, handle, type, 0), "cannot export a window");
  if (rc != 0) {
    driver->cuMemRelease(handle);
    return rc;
  }
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    fcntl(*(int *)exported, F_SETFD, FD_CLOEXEC); // otherwise a child process would keep the memory
  struct device_window made = {0};
  rc = map(driver, device, handle, size, &made, why);
  if (rc == 0)
    rc = cuda_clear_area(device, made.memory, size, why);
  if (rc != 0)
    cuda_window_release(device, &made);
  else
    *window = made;
  return rc;
}

int cuda_window_create(struct device *device, size_t size, struct device_window *window, int *fd, char *why) {
  struct cuda_guard guard;
  int exported = -1;
  int rc = check(device, size, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = create(cuda_driver(NULL), device, whole_pages(device, size), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, window,
              &exported, why);
  cuda_leave(&guard);
  if (rc == 0)
    *fd = exported;
  else if (exported >= 0)
    close(exported);
  return rc;
}

static int check_fabric(const struct device *device, size_t size, char *why) {
  if (!device->info.fabric)
    return cuda_why(why, WEFT_ERR_UNSUPPORTED, "device %d (%s) has no memory that other hosts map over NVLink",
                    device->index, device->info.name);
  return check(device, size, why);
}

int cuda_fabric_create(struct device *device, size_t size, struct device_window *window, uint8_t *name, char *why) {
  CUmemFabricHandle exported;
  struct cuda_guard guard;
  _Static_assert(sizeof exported == DEVICE_NAME, "a name is a fabric handle");
  int rc = check_fabric(device, size, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = create(cuda_driver(NULL), device, whole_pages(device, size), CU_MEM_HANDLE_TYPE_FABRIC, window, &exported, why);
  if (rc == 0)
    memcpy(name, &exported, sizeof exported);
  cuda_leave(&guard);
  return rc;
}

// Names the two devices in the message. The other device may be hidden from this process, and then has no index here.
static int map_error(const struct device *device, int owner, int rc, char *why) {
  char inner[DEVICE_WHY] = "";
  for (size_t i = 0; why && i < sizeof inner && (inner[i] = why[i]) != '\0'; i++)
    continue;
  if (rc == WEFT_ERR_NOMEM)
    return rc;
  if (owner < 0)
    return cuda_why(why, rc, "device %d cannot map the window of a device that this process does not see: %.150s",
                    device->index, inner);
  return cuda_why(why, rc, "device %d cannot map a window of device %d: %.150s", device->index, owner, inner);
}

// Whether lines written to a window of `owner` arrive as a whole, as they do over NVLink (the only link with atomics).
static bool arrives_whole(const struct cuda_driver *driver, const struct device *device, int owner) {
  int atomics = 0;
  CUdevice here, there;
  return owner == device->index ||
         (owner >= 0 && driver->cuDeviceGet(&here, device->index) == CUDA_SUCCESS &&
          driver->cuDeviceGet(&there, owner) == CUDA_SUCCESS &&
          driver->cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, here, there) ==
              CUDA_SUCCESS &&
          atomics);
}

int cuda_window_map(struct device *device, size_t size, int fd, struct device_window *window, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp props = {.location = {.id = -1}};
  struct cuda_guard guard;
  int rc = check(device, size, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  CUresult result =
      driver->cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) {
    if (driver->cuMemGetAllocationPropertiesFromHandle(&props, handle) != CUDA_SUCCESS ||
        props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      props.location.id = -1;
    rc = map(driver, device, handle, whole_pages(device, size), window, why);
    if (rc == 0 && !arrives_whole(driver, device, props.location.id))
      __atomic_store_n(&device->strict, true, __ATOMIC_RELEASE);
    if (rc != 0)
      rc = map_error(device, props.location.id, rc == WEFT_ERR_SYSTEM ? WEFT_ERR_PROTOCOL : rc, why);
  } else if (result == CUDA_ERROR_INVALID_DEVICE) { // the driver's answer in a container without that GPU
    rc = cuda_why(
        why, WEFT_ERR_UNSUPPORTED,
        "device %d cannot map the window of a GPU that this process has no access to: does it run in a container "
        "with some of the host's GPUs only?",
        device->index);
  } else {
    rc = cuda_check_driver(why, result, "cannot map the peer's window from its file descriptor");
    rc = rc == WEFT_ERR_SYSTEM ? WEFT_ERR_PROTOCOL : rc;
  }
  cuda_leave(&guard);
  return rc;
}

int cuda_fabric_map(struct device *device, size_t size, const uint8_t *name, struct device_window *window, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  CUmemGenericAllocationHandle handle;
  CUmemFabricHandle named;
  struct cuda_guard guard;
  int rc = check_fabric(device, size, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  memcpy(&named, name, sizeof named);
  rc = cuda_check_driver(why, driver->cuMemImportFromShareableHandle(&handle, &named, CU_MEM_HANDLE_TYPE_FABRIC),
                         "the peer's GPU is not on the same NVLink domain and IMEX channel");
  if (rc == 0)
    rc = map(driver, device, handle, whole_pages(device, size), window, why);
  cuda_leave(&guard);
  return rc == 0 || rc == WEFT_ERR_NOMEM ? rc : WEFT_ERR_UNSUPPORTED;
}

void cuda_window_release(struct device *device, struct device_window *window) {
  struct cuda_guard guard;
  if (!window->memory || cuda_enter(device, &guard, NULL) != 0)
    return;
  const struct cuda_driver *driver = cuda_driver(NULL);
  driver->cuMemUnmap((CUdeviceptr)(uintptr_t)window->memory, window->size);
  driver->cuMemAddressFree((CUdeviceptr)(uintptr_t)window->memory, window->size);
  cuda_leave(&guard);
  *window = (struct device_window){0};
}
