// A fake CUDA in host memory, for the host side of the plug-in.
#include "cuda/support/fake_cuda.h"

#include "cuda/driver/driver.h"
#include "cuda/kernels/copies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake_cuda fake = {.mappable = true, .memory_per_member = 1024};
_Alignas(16) char fake_host_memory[64];

#define CONTEXT(index) ((CUcontext)(uintptr_t)(0x100 + (index)))

static _Thread_local CUcontext current[8];
static _Thread_local int top;

// --- the driver ---

static CUresult error_string(CUresult error, const char **text) {
  (void)error;
  *text = "so it is";
  return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  (void)attribute, (void)device;
  *value = 1;
  return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device) {
  *context = CONTEXT(device);
  return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context) {
  *context = top > 0 ? current[top - 1] : NULL;
  return CUDA_SUCCESS;
}

static CUresult push(CUcontext context) {
  if (fake.pushes_left > 0 && --fake.pushes_left == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  current[top++] = context;
  fake.depth++;
  return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context) {
  *context = current[--top];
  fake.depth--;
  return CUDA_SUCCESS;
}

static CUresult context_device(CUdevice *device) {
  *device = (CUdevice)((uintptr_t)current[top - 1] - 0x100);
  return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *context) {
  if (!stream)
    return top > 0 ? get_current(context) : CUDA_ERROR_INVALID_CONTEXT;
  *context = CONTEXT(stream == FAKE_OTHER_STREAM);
  return CUDA_SUCCESS;
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  (void)attribute, (void)from, (void)to;
  *value = 0;
  return CUDA_SUCCESS;
}

static CUresult stream_write(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  (void)stream, (void)flags;
  if (fake.fails == 'w') {
    fake.fails = '\0';
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!fake.stuck)
    *(uint32_t *)(uintptr_t)address = value;
  return CUDA_SUCCESS;
}
static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr within) {
  if (top == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  *base = within & ~(CUdeviceptr)4095;
  *size = 8192;
  return CUDA_SUCCESS;
}

static CUresult granularity(size_t *size, const CUmemAllocationProp *props, CUmemAllocationGranularity_flags flags) {
  (void)props, (void)flags;
  *size = 4096;
  return CUDA_SUCCESS;
}

static CUresult properties(CUmemAllocationProp *props, CUmemGenericAllocationHandle handle) {
  (void)handle;
  *props = (CUmemAllocationProp){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *props,
                       unsigned long long flags) {
  (void)flags;
  if (props->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC && fake.no_channel)
    return CUDA_ERROR_NOT_PERMITTED;
  int fd = fake.full ? -1 : memfd_create("fake", 0);
  if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  fake.allocated++;
  *handle = (CUmemGenericAllocationHandle)fd;
  return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
  fake.allocated--;
  close((int)handle);
  return CUDA_SUCCESS;
}

// A fabric handle names a descriptor, which nobody closes.
static CUresult export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                       unsigned long long flags) {
  (void)flags;
  int fd = dup((int)handle);
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    memset(out, 0, sizeof(CUmemFabricHandle));
    memcpy(out, &fd, sizeof fd);
  } else {
    *(int *)out = fd;
  }
  return CUDA_SUCCESS;
}

static CUresult import(CUmemGenericAllocationHandle *handle, void *given, CUmemAllocationHandleType type) {
  struct stat about;
  void *fd = given;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    int named;
    memcpy(&named, given, sizeof named);
    fd = (void *)(uintptr_t)named;
  }
  if (fake.hidden)
    return CUDA_ERROR_INVALID_DEVICE;
  if (fstat((int)(uintptr_t)fd, &about) != 0 || !S_ISREG(about.st_mode))
    return CUDA_ERROR_INVALID_VALUE;
  fake.allocated++;
  *handle = (CUmemGenericAllocationHandle)dup((int)(uintptr_t)fd);
  return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags) {
  (void)alignment, (void)wanted, (void)flags;
  void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = (CUdeviceptr)(uintptr_t)at;
  fake.allocated++;
  return at == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr address, size_t size) {
  fake.allocated--;
  munmap((void *)(uintptr_t)address, size);
  return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  (void)offset, (void)flags;
  struct stat about;
  if (fstat((int)handle, &about) != 0 || (size_t)about.st_size < size)
    return CUDA_ERROR_INVALID_VALUE;
  void *at = mmap((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle, 0);
  fake.allocated++;
  return at == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size) {
  (void)address, (void)size;
  fake.allocated--;
  return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
  (void)address, (void)size, (void)access, (void)count;
  return fake.mappable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static const struct {
  const char *name;
  void *function;
} driver[] = {
    {"cuGetErrorString", (void *)error_string},
    {"cuDeviceGet", (void *)device_get},
    {"cuDeviceGetAttribute", (void *)device_attribute},
    {"cuDevicePrimaryCtxRetain", (void *)retain},
    {"cuCtxGetCurrent", (void *)get_current},
    {"cuCtxPushCurrent", (void *)push},
    {"cuCtxPopCurrent", (void *)pop},
    {"cuCtxGetDevice", (void *)context_device},
    {"cuStreamGetCtx", (void *)stream_context},
    {"cuDeviceGetP2PAttribute", (void *)p2p_attribute},
    {"cuMemGetAddressRange", (void *)address_range},
    {"cuStreamWriteValue32", (void *)stream_write},
    {"cuMemGetAllocationGranularity", (void *)granularity},
    {"cuMemGetAllocationPropertiesFromHandle", (void *)properties},
    {"cuMemCreate", (void *)create},
    {"cuMemRelease", (void *)release},
    {"cuMemExportToShareableHandle", (void *)export},
    {"cuMemImportFromShareableHandle", (void *)import},
    {"cuMemAddressReserve", (void *)reserve},
    {"cuMemAddressFree", (void *)address_free},
    {"cuMemMap", (void *)map},
    {"cuMemUnmap", (void *)unmap},
    {"cuMemSetAccess", (void *)set_access},
};

static cudaError_t entry_point(const char *name, void **function, enum cudaDriverEntryPointQueryResult *status) {
  *function = NULL;
  *status = cudaDriverEntryPointSymbolNotFound;
  for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
    if (strcmp(driver[i].name, name) == 0)
      *function = driver[i].function;
  return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
  (void)version, (void)flags;
  return entry_point(name, function, status);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
  (void)flags;
  return entry_point(name, function, status);
}
#endif

// --- the runtime ---

cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error";
}
const char *cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *props, int device) {
  (void)device;
  memset(props, 0, sizeof *props);
  strcpy(props->name, "Fake");
  props->major = 9;
  props->multiProcessorCount = FAKE_PROCESSORS;
  props->totalGlobalMem = 1 << 30;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device) {
  (void)size, (void)device;
  strcpy(id, "0000:01:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  (void)device, (void)peer;
  *can = fake.mappable;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  (void)attribute, (void)device;
  *value = FAKE_SHARED;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  static _Thread_local enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  enum cudaStreamCaptureMode before = now;
  now = *mode;
  *mode = before;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
  (void)flags, (void)priority;
  *stream = FAKE_STREAM;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  (void)stream;
  *status = fake.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count) {
  (void)edges;
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count) {
#endif
  (void)graph, (void)dependencies, (void)count;
  *id = fake.capturing ? 5 : 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  (void)stream;
  fake.waits_in_capture += fake.capturing;
  if (fake.query != cudaSuccess) {
    cudaError_t error = fake.query;
    fake.query = cudaSuccess;
    return error;
  }
  if (fake.stuck_for > 0 && --fake.stuck_for == 0)
    fake.stuck = false;
  return fake.stuck ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  (void)flags;
  *event = (cudaEvent_t)0x3000;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)event, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  (void)stream, (void)event, (void)flags;
  fake.drained++;
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
  (void)begin, (void)end;
  *ms = 0.5f;
  return fake.stuck ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  (void)stream, (void)mode;
  fake.capturing = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  (void)stream;
  fake.capturing = false;
  *graph = (cudaGraph_t)0x5000;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
  (void)graph, (void)flags;
  *made = (cudaGraphExec_t)0x6000;
  return fake.stuck ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  (void)graph, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  (void)graph, (void)stream;
  fake.graphs++;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  (void)graph;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  (void)graph;
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props) {
  (void)props;
  *pool = (cudaMemPool_t)0x4000;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  (void)pool, (void)attribute, (void)value;
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  (void)pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  (void)pool, (void)keep;
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  (void)pool, (void)stream;
  if (fake.full)
    return cudaErrorMemoryAllocation;
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  memset(*memory, 0xA5, size);
  fake.allocated++;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
  (void)stream;
  fake.allocated--;
  fake.freed_early += fake.stuck;
  free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned int flags) {
  (void)flags;
  *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *memory) {
  free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *memory, unsigned int flags) {
  (void)flags;
  *device = memory;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind, (void)stream;
  if (fake.copies_left > 0 && --fake.copies_left == 0)
    return cudaErrorInvalidValue;
  memcpy(to, from, size);
  if (fake.copied)
    fake.copied();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t size, cudaStream_t stream) {
  (void)stream;
  memset(memory, byte, size);
  return cudaSuccess;
}
// Registered host memory, by pages.
static struct pinned { uintptr_t begin, end; } pinned[64];

static struct pinned *find_pinned(uintptr_t at, size_t size) {
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
    if (pinned[i].begin < at + size && at < pinned[i].end)
      return &pinned[i];
  return NULL;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *is, const void *memory) {
  bool host = (const char *)memory >= fake_host_memory && (const char *)memory < fake_host_memory + 64;
  *is = (struct cudaPointerAttributes){.type = find_pinned((uintptr_t)memory, 1) ? cudaMemoryTypeHost
                                               : host                            ? cudaMemoryTypeUnregistered
                                                                                 : cudaMemoryTypeDevice,
                                       .device = memory == FAKE_OTHER_MEMORY,
                                       .devicePointer = (void *)(uintptr_t)memory};
  return cudaSuccess;
}

// --- the kernels ---

int cuda_launch_load(bool *early) {
  *early = !fake.old_code;
  return cudaSuccess;
}
int cuda_launch_dispatch(const struct cuda_dispatch_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  (void)stream;
  fake.dispatch = *args;
  fake.blocks = blocks;
  fake.early = early;
  fake.launches++;
  return cudaSuccess;
}
int cuda_launch_combine(const struct cuda_combine_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  (void)stream;
  if (fake.fails == 'C') {
    fake.fails = '\0';
    return cudaErrorLaunchOutOfResources;
  }
  fake.combine = *args;
  fake.blocks = blocks;
  fake.early = early;
  fake.launches++;
  return cudaSuccess;
}
int cuda_launch_finish(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream) {
  (void)args, (void)blocks, (void)stream;
  fake.launches++;
  return cudaSuccess;
}
int cuda_launch_reopen(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream) {
  (void)args, (void)blocks, (void)stream;
  fake.launches++;
  return cudaSuccess;
}
int cuda_launch_masks(const struct cuda_masks_args *args, cudaStream_t stream) {
  (void)args, (void)stream;
  fake.launches++;
  return cudaSuccess;
}
int cuda_launch_begin(const struct cuda_begin_args *args, cudaStream_t stream) {
  (void)stream;
  fake.begin = *args;
  if (++fake.begins < fake.begins_until_found)
    return cudaSuccess;
  *args->result = fake.found;
  if (args->op != CUDA_AWAIT)
    args->result->epoch = args->epoch;
  return cudaSuccess;
}
int cuda_launch_wake_links(const struct cuda_begin_args *args, cudaStream_t stream) {
  (void)stream;
  fake.begin = *args;
  return cudaSuccess;
}
size_t cuda_combine_memory(bool before_hopper) {
  return before_hopper ? 0 : fake.combine_memory;
}
size_t cuda_dispatch_memory(const struct cuda_dispatch_args *args) {
  return (size_t)args->members * fake.memory_per_member;
}

// --- the kernels of groups for throughput ---

static int note(char letter, uint32_t blocks, bool early) {
  if (fake.fails == letter) {
    fake.fails = '\0';
    return cudaErrorLaunchOutOfResources;
  }
  size_t length = strlen(fake.order);
  if (length + 1 < sizeof fake.order)
    fake.order[length] = letter;
  fake.blocks = blocks;
  fake.early = early;
  fake.launches++;
  return cudaSuccess;
}
#define LAUNCHES(name, letter)                                                                                         \
  int cuda_launch_##name(const struct cuda_##name##_args *args, uint32_t blocks, bool early, cudaStream_t stream) {    \
    (void)stream;                                                                                                      \
    fake.name = *args;                                                                                                 \
    return note(letter, blocks, early);                                                                                \
  }
LAUNCHES(plan, 'p')
LAUNCHES(compare, '=')
LAUNCHES(rows, 'r')
LAUNCHES(answers, 'a')
LAUNCHES(lists, 'l')
#define LAUNCHES_ONE(name, letter)                                                                                     \
  int cuda_launch_##name(const struct cuda_##name##_args *args, bool early, cudaStream_t stream) {                     \
    (void)stream;                                                                                                      \
    fake.name = *args;                                                                                                 \
    return note(letter, 1, early);                                                                                     \
  }
LAUNCHES_ONE(control, 'c')
LAUNCHES_ONE(notify, 't')
LAUNCHES_ONE(end, 'e')
size_t cuda_control_memory(const struct cuda_layout *layout, uint32_t members) {
  (void)layout;
  return (size_t)members * fake.memory_per_member;
}
size_t cuda_plan_memory(uint32_t experts, uint32_t members) {
  return (size_t)members * experts * fake.plan_memory;
}
size_t cuda_plan_workspace(const struct cuda_flow *flow, uint32_t blocks) {
  (void)flow;
  return 64 * (size_t)blocks;
}
size_t cuda_rows_workspace(const struct cuda_flow *flow, uint32_t blocks, uint32_t max_rows) {
  (void)flow;
  return 64 * (size_t)blocks + max_rows;
}

// --- copies ---

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory) {
  memset(handle, 1, sizeof *handle);
  memcpy(handle, &memory, sizeof memory);
  return fake.mappable ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned int flags) {
  (void)flags;
  memcpy(memory, &handle, sizeof *memory);
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void *memory) {
  (void)memory;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  (void)peer, (void)flags;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void *memory, size_t size, unsigned int flags) {
  uintptr_t begin = (uintptr_t)memory / 4096 * 4096, end = ((uintptr_t)memory + size + 4095) / 4096 * 4096;
  struct pinned *free = pinned;
  if (fake.own_only)
    return cudaErrorNotSupported;
  if (find_pinned(begin, end - begin))
    return cudaErrorHostMemoryAlreadyRegistered;
  while (free->end != 0)
    free++;
  *free = (struct pinned){begin, end};
  fake.pinned++;
  fake.registered = flags;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory) {
  struct pinned *its = find_pinned((uintptr_t)memory, 1);
  if (!its || its->begin != (uintptr_t)memory / 4096 * 4096)
    return cudaErrorHostMemoryNotRegistered;
  *its = (struct pinned){0, 0};
  fake.pinned--;
  return cudaSuccess;
}
cudaError_t cuda_copies_load(void) {
  return cudaSuccess;
}
// Publishes that a launch is complete, which it is at once, unless the device is stuck.
static void publish_word(uint32_t blocks, const struct cuda_copies_mark *mark) {
  for (uint32_t i = 0; !fake.stuck && i < blocks; i++)
    mark->words[i] = mark->number;
}
cudaError_t cuda_copies_launch(const struct device_copy *pieces, uint32_t count, uint32_t blocks,
                               const struct cuda_copies_mark *mark, cudaStream_t stream) {
  (void)stream;
  for (uint32_t i = 0; i < count; i++)
    memcpy(pieces[i].to, pieces[i].from, pieces[i].size);
  publish_word(blocks, mark);
  return cudaSuccess;
}
