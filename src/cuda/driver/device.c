// Devices of this process.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 64, OLDEST = 8 }; // OLDEST: compute capability that the kernels are made for

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *devices[MAX_DEVICES];

static int no_devices(cudaError_t error, char *why) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  int driver = 0, runtime = 0;
  cudaGetLastError();
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return cuda_why(why, WEFT_ERR_UNSUPPORTED,
                    "there is no NVIDIA driver here (libcuda.so.1 is not found, or finds no device)");
  if (error == cudaErrorInsufficientDriver)
    return cuda_why(
        why, WEFT_ERR_UNSUPPORTED,
        "the NVIDIA driver here is for CUDA %d.%d, and this plug-in needs one for CUDA %d.%d: install a newer "
        "driver, or a plug-in built with an older CUDA",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  if (error == cudaErrorSystemNotReady)
    return cuda_why(why, WEFT_ERR_UNSUPPORTED,
                    "the GPUs are not ready: on hosts with NVSwitch, is nvidia-fabricmanager running? (%s)",
                    cudaGetErrorString(error));
  if (visible)
    return cuda_why(why, WEFT_ERR_UNSUPPORTED, "no GPU can be used with CUDA_VISIBLE_DEVICES='%.80s' (%s)", visible,
                    cudaGetErrorString(error));
  return cuda_why(why, WEFT_ERR_UNSUPPORTED, "no GPU can be used (%s)", cudaGetErrorString(error));
}

int cuda_count(int *count, char *why) {
  int found = 0;
  cudaError_t error = cudaGetDeviceCount(&found);
  if (error != cudaSuccess || found == 0)
    return no_devices(error == cudaSuccess ? cudaErrorNoDevice : error, why);
  *count = found < MAX_DEVICES ? found : MAX_DEVICES;
  return 0;
}

static int check_index(int index, char *why) {
  int count = 0;
  int rc = cuda_count(&count, why);
  if (rc == 0 && (index < 0 || index >= count))
    rc = cuda_why(why, WEFT_ERR_INVALID, "there is no device %d: this process has 0 to %d%s", index, count - 1,
                  getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES counts)" : "");
  return rc;
}

static bool has(const struct cuda_driver *driver, int index, CUdevice_attribute attribute) {
  CUdevice device;
  int value = 0;
  return driver->cuDeviceGet(&device, index) == CUDA_SUCCESS &&
         driver->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

// Whether memory of the device can be exported as a handle of that kind.
static bool can_export(const struct cuda_driver *driver, int index, CUdevice_attribute kind) {
  return has(driver, index, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) && has(driver, index, kind);
}

int cuda_describe(int index, struct device_info *info, char *why) {
  const CUdevice_attribute by_descriptor = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
  const CUdevice_attribute by_name = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
  struct cudaDeviceProp properties;
  int rc = check_index(index, why);
  if (rc != 0)
    return rc;
  const struct cuda_driver *driver = cuda_driver(why);
  if (!driver)
    return WEFT_ERR_UNSUPPORTED;
  rc = cuda_check(why, cudaGetDeviceProperties(&properties, index), "cannot describe the device");
  if (rc != 0)
    return rc;
  *info = (struct device_info){.major = properties.major,
                               .minor = properties.minor,
                               .processors = (uint32_t)properties.multiProcessorCount,
                               .memory_bytes = properties.totalGlobalMem,
                               .windows = can_export(driver, index, by_descriptor),
                               .fabric = can_export(driver, index, by_name)};
  memcpy(info->name, properties.name, sizeof info->name - 1);
  memcpy(info->uuid, &properties.uuid, sizeof info->uuid);
  return cuda_check(why, cudaDeviceGetPCIBusId(info->pci, sizeof info->pci, index), "cannot describe the device");
}

int cuda_check_peer(int index, int peer, char *why) {
  int reaches = 0, rc = check_index(index, why);
  if (rc == 0)
    rc = check_index(peer, why);
  if (rc != 0 || index == peer)
    return rc;
  rc = cuda_check(why, cudaDeviceCanAccessPeer(&reaches, index, peer), "cannot query peer access");
  if (rc == 0 && !reaches)
    rc = cuda_why(
        why, WEFT_ERR_UNSUPPORTED,
        "device %d cannot reach the memory of device %d: they have neither NVLink nor PCIe peer access between "
        "them (nvidia-smi topo -p2p w)",
        index, peer);
  return rc;
}

// Retains the primary context, which the runtime uses, too. It is never released, since the runtime keeps objects in
// it.
static int open_context(const struct cuda_driver *driver, struct device *device, char *why) {
  CUdevice ordinal;
  int rc = cuda_check_driver(why, driver->cuDeviceGet(&ordinal, device->index), "cannot open the device");
  if (rc == 0)
    rc = cuda_check_driver(why, driver->cuDevicePrimaryCtxRetain(&device->context, ordinal), "cannot open the device");
  return rc;
}

static int open_pool(struct device *device, char *why) {
  // Freed memory stays mapped in the pool for the next allocation: unmapping would take it from a kernel that still
  // runs.
  uint64_t all = UINT64_MAX;
  struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                   .location = {.type = cudaMemLocationTypeDevice, .id = device->index}};
  int rc = cuda_check(why, cudaMemPoolCreate(&device->pool, &props), "cannot make a pool of device memory");
  if (rc == 0)
    rc = cuda_check(why, cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &all),
                    "cannot set up a pool of device memory");
  return rc;
}

static void close_parts(struct device *device) {
  if (device->stream)
    cudaStreamDestroy(device->stream);
  if (device->pool)
    cudaMemPoolDestroy(device->pool);
  if (device->fill_source)
    cudaFreeHost(device->fill_source);
  cudaGetLastError();
}

static int open_parts(const struct cuda_driver *driver, struct device *device, char *why) {
  int least, greatest, shared;
  int rc = cuda_check(why, cudaDeviceGetStreamPriorityRange(&least, &greatest), "cannot open the device");
  if (rc == 0)
    rc = cuda_check(why, cudaStreamCreateWithPriority(&device->stream, cudaStreamNonBlocking, greatest),
                    "cannot make a stream");
  if (rc == 0)
    rc = cuda_check(why, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device->index),
                    "cannot describe the device");
  if (rc == 0)
    rc = open_pool(device, why);
  if (rc == 0)
    rc = cuda_check(why, cudaHostAlloc((void **)&device->fill_source, 2 * CUDA_FILL_BYTES, cudaHostAllocPortable),
                    "cannot pin host memory");
  if (rc != 0)
    return rc;
  memset(device->fill_source, 0, CUDA_FILL_BYTES);
  memset(device->fill_source + CUDA_FILL_BYTES, 0xFF, CUDA_FILL_BYTES);
  device->shared_memory = (size_t)shared;
  if (!device->info.windows)
    return 0;
  CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index}};
  return cuda_check_driver(
      why, driver->cuMemGetAllocationGranularity(&device->granularity, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "cannot query the granularity of device memory");
}

// After a failure only the context stays retained (open_context()).
static int make(int index, struct device **out, char *why) {
  struct device *device = calloc(1, sizeof *device);
  const struct cuda_driver *driver = cuda_driver(why);
  struct cuda_guard guard;
  if (!device || !driver) {
    free(device);
    return driver ? cuda_why(why, WEFT_ERR_NOMEM, "no memory for a device") : WEFT_ERR_UNSUPPORTED;
  }
  device->index = index;
  pthread_mutex_init(&device->lock, NULL);
  int rc = cuda_describe(index, &device->info, why);
  if (rc == 0 && device->info.major < OLDEST)
    rc = cuda_why(why, WEFT_ERR_UNSUPPORTED, "device %d (%s) has compute capability %d.%d; the kernels need %d.0",
                  index, device->info.name, device->info.major, device->info.minor, OLDEST);
  if (rc == 0)
    rc = open_context(driver, device, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc == 0) {
    rc = open_parts(driver, device, why);
    if (rc != 0)
      close_parts(device);
    cuda_leave(&guard);
  }
  if (rc == 0)
    *out = device;
  else
    free(device);
  return rc;
}

int cuda_open(int index, struct device **out, char *why) {
  int rc = check_index(index, why);
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&lock);
  if (!devices[index])
    rc = make(index, &devices[index], why);
  if (rc == 0) {
    devices[index]->users++;
    *out = devices[index];
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

void cuda_close(struct device *device) {
  struct cuda_guard guard;
  if (!device)
    return;
  pthread_mutex_lock(&lock);
  if (--device->users == 0 && cuda_enter(device, &guard, NULL) == 0) {
    cudaMemPoolTrimTo(device->pool, 0);
    cudaGetLastError();
    cuda_leave(&guard);
  }
  pthread_mutex_unlock(&lock);
}

const struct device *cuda_any_device(void) {
  const struct device *found = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_DEVICES && !found; i++)
    found = devices[i];
  pthread_mutex_unlock(&lock);
  return found;
}
