// Pinned host memory for windows. Memory that other processes read is a memfd registered with CUDA. All other memory,
// and all memory on hosts without memfd, is allocated by CUDA.
#include "cuda/memory/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda/plugin.h"

// All pages are allocated, and the size is sealed, so processes that map the file get no signal. -1: there is no such
// memory.
static int make_file(size_t size) {
  struct rlimit files; // the limit also holds for memfds, and a signal kills a process that exceeds it
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < size)
    return -1;
  int fd = memfd_create("weft-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  int rc = ftruncate(fd, (off_t)size);
  if (rc == 0)
    do
      rc = fallocate(fd, 0, 0, (off_t)size);
    while (rc != 0 && errno == EINTR);
  if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return fd;
  close(fd);
  return -1;
}

// NULL: CUDA cannot register it.
static void *map_file(size_t size, int fd) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED)
    return NULL;
  if (cudaHostRegister(memory, size, cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess)
    return memory;
  cudaGetLastError();
  munmap(memory, size);
  return NULL;
}

void *cuda_host_memory_shared(size_t size, int *fd) {
  int made = make_file(size);
  void *memory = made < 0 ? NULL : map_file(size, made);
  if (memory)
    *fd = made;
  else if (made >= 0)
    close(made);
  return memory;
}

int cuda_host_memory_own(size_t size, void **memory, char *why) {
  return cuda_check(why, cudaHostAlloc(memory, size, cudaHostAllocPortable | cudaHostAllocMapped),
                    "cannot pin host memory for a window");
}

bool cuda_host_memory_is_read(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0)
    return true;
  flock(fd, LOCK_UN);
  return false;
}
