// A cuFile without GPUDirect Storage, which reads and writes files for the fake device.
#include "support/fake_cufile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "transport/file/cufile.h"

enum { PAGE = 4096, NAP_NS = 100000, INVALID_VALUE = 5022, CONTEXT_MISMATCH = 5015, NOT_REGISTERED = 5027 };

#define SHOWN __attribute__((visibility("default")))

SHOWN fake_cufile_fn fake_cufile;
SHOWN struct cufile_status cuFileDriverOpen(void);
SHOWN struct cufile_status cuFileHandleRegister(cufile_handle *handle, const struct cufile_target *target);
SHOWN void cuFileHandleDeregister(cufile_handle handle);
SHOWN struct cufile_status cuFileBufRegister(const void *memory, size_t size, int flags);
SHOWN struct cufile_status cuFileBufDeregister(const void *memory);
SHOWN struct cufile_status cuFileGetVersion(int *version);
SHOWN ssize_t cuFileRead(cufile_handle handle, void *memory, size_t size, off_t offset, off_t at);
SHOWN ssize_t cuFileWrite(cufile_handle handle, const void *memory, size_t size, off_t offset, off_t at);

static struct fake_cufile fake;

__attribute__((constructor)) static void read_environment(void) {
  const char *driver = getenv("FAKE_CUFILE_DRIVER"), *at_most = getenv("FAKE_CUFILE_AT_MOST");
  atomic_store(&fake.driver_error, driver ? atoi(driver) : 0);
  atomic_store(&fake.at_most, at_most ? strtoull(at_most, NULL, 10) : 0);
}

struct fake_cufile *fake_cufile(void) {
  return &fake;
}

// Whether the fake device is current in the calling thread, as cuFile requires.
static bool has_device(void) {
  static void *_Atomic found; // the library is never unloaded
  void *symbol = atomic_load(&found);
  if (!symbol) {
    const char *plugin = getenv("WEFT_CUDA_PLUGIN");
    void *device = plugin ? dlopen(plugin, RTLD_NOW | RTLD_NOLOAD) : NULL;
    symbol = device ? dlsym(device, "fake_device_is_current") : NULL;
    atomic_store(&found, symbol);
  }
  bool (*is_current)(void) = NULL;
  memcpy(&is_current, &symbol, sizeof symbol);
  return is_current && is_current();
}

struct cufile_status cuFileDriverOpen(void) {
  struct cufile_status status = {.err = atomic_load(&fake.driver_error), .cuda = atomic_load(&fake.driver_cuda)};
  if (status.err == 0)
    atomic_fetch_add(&fake.drivers, 1);
  return status;
}

struct cufile_status cuFileGetVersion(int *version) {
  *version = 1150;
  return (struct cufile_status){0};
}

// If the descriptor has O_DIRECT, cuFile 1.15 opens the file once more, by its name.
static bool is_unlinked_and_direct(int fd) {
  struct stat about;
  return fcntl(fd, F_GETFL) & O_DIRECT && fstat(fd, &about) == 0 && about.st_nlink == 0;
}

// A handle is the descriptor's number + 1.
struct cufile_status cuFileHandleRegister(cufile_handle *handle, const struct cufile_target *target) {
  struct cufile_status status = {.err = atomic_load(&fake.handle_error)};
  if (target->type != CUFILE_OPAQUE_FD || target->operations)
    status.err = INVALID_VALUE;
  else if (status.err == 0 && is_unlinked_and_direct(target->of.fd))
    status.err = CUFILE_GETNEWFD_FAILED;
  if (status.err == 0)
    atomic_fetch_add(&fake.handles, 1);
  *handle = status.err == 0 ? (void *)((intptr_t)target->of.fd + 1) : (void *)&fake; // undefined after a failure
  return status;
}

void cuFileHandleDeregister(cufile_handle handle) {
  if (handle)
    atomic_fetch_sub(&fake.handles, 1);
}

struct cufile_status cuFileBufRegister(const void *memory, size_t size, int flags) {
  struct cufile_status status = {.err = atomic_load(&fake.buffer_error)};
  if (!memory || size == 0 || flags != 0)
    status.err = INVALID_VALUE;
  else if (!has_device())
    status.err = CONTEXT_MISMATCH;
  if (status.err == 0)
    atomic_fetch_add(&fake.buffers, 1);
  return status;
}

struct cufile_status cuFileBufDeregister(const void *memory) {
  (void)memory;
  atomic_fetch_sub(&fake.buffers, 1);
  return (struct cufile_status){0};
}

// --- reads and writes ---

static bool fails(off_t offset, size_t size, ssize_t *result) {
  *result = 0;
  if (atomic_load(&fake.interrupts) > 0 && atomic_fetch_sub(&fake.interrupts, 1) > 0) {
    errno = EINTR;
    *result = -1;
  } else if ((uint64_t)offset + size > atomic_load(&fake.from) && atomic_load(&fake.error)) {
    *result = -atomic_load(&fake.error);
  } else if ((uint64_t)offset + size > atomic_load(&fake.from) && atomic_load(&fake.errno_)) {
    errno = atomic_load(&fake.errno_);
    *result = -1;
  }
  return *result != 0;
}

// With O_DIRECT the memory has to be aligned; cuFile does not require that of GPU memory.
static ssize_t move(int fd, char *memory, size_t size, off_t offset, bool write) {
  char *bounce = aligned_alloc(PAGE, size);
  if (!bounce)
    return -1;
  if (write)
    memcpy(bounce, memory, size);
  ssize_t moved = write ? pwrite(fd, bounce, size, offset) : pread(fd, bounce, size, offset);
  int error = errno;
  size_t at_most = (size_t)atomic_load(&fake.at_most);
  if (moved > 0 && at_most > 0 && (size_t)moved > at_most)
    moved = (ssize_t)at_most;
  while (atomic_load(&fake.hold) != 0) // simulates a slow device: memory is touched afterwards
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  if (!write && moved > 0)
    memcpy(memory, bounce, (size_t)moved);
  free(bounce);
  errno = error;
  return moved;
}

static ssize_t call(cufile_handle handle, char *memory, size_t size, off_t offset, bool write) {
  ssize_t result;
  atomic_fetch_add(&fake.calls, 1);
  atomic_fetch_add(&fake.inside, 1);
  if (!handle)
    result = -NOT_REGISTERED;
  else if (offset % PAGE != 0 || size % PAGE != 0 || size == 0) // cuFile allows it, but Weft must not ask for it
    result = -INVALID_VALUE;
  else if (!has_device())
    result = -CONTEXT_MISMATCH;
  else if (!fails(offset, size, &result))
    result = move((int)((intptr_t)handle - 1), memory, size, offset, write);
  int error = errno;
  atomic_fetch_sub(&fake.inside, 1);
  errno = error;
  return result;
}

ssize_t cuFileRead(cufile_handle handle, void *memory, size_t size, off_t offset, off_t at) {
  return call(handle, (char *)memory + at, size, offset, false);
}

ssize_t cuFileWrite(cufile_handle handle, const void *memory, size_t size, off_t offset, off_t at) {
  return call(handle, (char *)(uintptr_t)memory + at, size, offset, true);
}
