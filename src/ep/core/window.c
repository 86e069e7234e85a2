// Makes, maps and releases windows: sealed memfds.
#include "ep/core/window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fail.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

static int map(struct ep_window *window, size_t size, int fd, int access, int flags) {
  void *memory = mmap(NULL, size, access, MAP_SHARED | flags, fd, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "cannot map a window of %zu bytes", size);
  *window = (struct ep_window){.memory = memory, .size = size};
  return 0;
}

// Allocates every page now: so a full /dev/shm is an error here, not a signal in the middle of a dispatch, and
// operations have no page faults.
static int fill(int fd, size_t size) {
  struct rlimit files; // these limits apply to memfds too, and exceeding them kills the process
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < size)
    return fail_errno(EFBIG, "cannot make a window of %zu bytes", size);
  if (ftruncate(fd, (off_t)size) != 0)
    return fail_errno(errno, "cannot make a window of %zu bytes", size);
  int error;
  do
    error = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
  while (error == EINTR);
  if (error != 0)
    return fail_errno(error, "no memory for a window of %zu bytes", size);
  if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "cannot seal a window");
  return 0;
}

int ep_window_create(struct ep_window *window, size_t size, int *fd) {
  int new_fd = memfd_create("weft-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (new_fd < 0)
    return fail_errno(errno, "cannot create a window");
  int rc = fill(new_fd, size);
  if (rc == 0)
    rc = map(window, size, new_fd, PROT_READ | PROT_WRITE, MAP_POPULATE);
  if (rc != 0) {
    close(new_fd);
    return rc;
  }
  *fd = new_fd;
  return 0;
}

// Checks that it is a peer's memory of that size, which cannot be resized.
static int check(size_t size, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail_errno(errno, "cannot stat a peer's window");
  if ((size_t)status.st_size != size)
    return fail(WEFT_ERR_PROTOCOL, "a peer's window has %lld bytes, not %zu", (long long)status.st_size, size);
  struct statfs system;
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) // a writer may run out of hugetlbfs pages
    return fail(WEFT_ERR_PROTOCOL,
                "a peer's window is not sealed against resizing: it is not a memfd of ordinary pages");
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS)
    return fail(WEFT_ERR_PROTOCOL, "a peer's window is not sealed against resizing");
  return 0;
}

int ep_window_map(struct ep_window *window, size_t size, int fd) {
  int rc = check(size, fd);
  return rc == 0 ? map(window, size, fd, PROT_READ | PROT_WRITE, MAP_POPULATE) : rc;
}

int ep_window_map_read(struct ep_window *window, size_t size, int fd) {
  int rc = check(size, fd);
  return rc == 0 ? map(window, size, fd, PROT_READ, 0) : rc;
}

// Uses huge pages if the kernel has some, since all rows pass through this memory.
int ep_window_private(struct ep_window *window, size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "no memory for a window of %zu bytes", size);
  madvise(memory, size, MADV_HUGEPAGE);
  if (madvise(memory, size, MADV_POPULATE_WRITE) != 0 && errno == EINVAL) // before Linux 5.14
    memset(memory, 0, size);
  *window = (struct ep_window){.memory = memory, .size = size};
  return 0;
}

uint32_t ep_window_take_fds(struct msghdr *packet, int *fds, uint32_t cap) {
  uint32_t count = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(packet); header; header = CMSG_NXTHDR(packet, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    size_t got = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < got; i++, count++) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (count < cap)
        fds[count] = fd;
      else
        close(fd);
    }
  }
  return count;
}

void ep_window_discard(struct ep_window *window) {
  size_t first = (size_t)sysconf(_SC_PAGESIZE);
  if (window->size > first) // if the kernel refuses, the pages stay until the window is released
    madvise((char *)window->memory + first, window->size - first, MADV_REMOVE);
}

void ep_window_release(struct ep_window *window) {
  if (window->memory)
    munmap(window->memory, window->size);
  *window = (struct ep_window){0};
}
