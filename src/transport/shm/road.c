#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

static int cannot_open(int error, pid_t pid, const char *what) {
  switch (error) {
  case ENOENT: // no such process, or it closed that descriptor
    return fail(WEFT_ERR_UNREACHABLE, "%s of process %d is gone", what, (int)pid);
  case EACCES:
  case EPERM:
    return fail(WEFT_ERR_UNREACHABLE,
                "/proc/%d/fd may not be read: shared memory needs processes of one user, which have not been made "
                "undumpable (prctl PR_SET_DUMPABLE), or CAP_SYS_PTRACE",
                (int)pid);
  default:
    return fail_errno(error, "cannot open %s of process %d", what, (int)pid);
  }
}

int shm_road_open(pid_t pid, int fd, int flags, uint64_t device, uint64_t inode, const char *what, int *opened) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
  int found = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (found < 0)
    return cannot_open(errno, pid, what);
  struct stat status;
  if (fstat(found, &status) != 0 || status.st_dev != device || status.st_ino != inode) {
    close(found);
    return fail(WEFT_ERR_UNREACHABLE, "%s of process %d is gone", what, (int)pid);
  }
  *opened = found;
  return 0;
}

int shm_road_pidfd(pid_t pid, int *fd) {
  int found = (int)syscall(SYS_pidfd_open, pid, 0);
  if (found < 0 && errno == ESRCH)
    return fail(WEFT_ERR_UNREACHABLE, "process %d is gone", (int)pid);
  if (found < 0)
    return fail_errno(errno, "cannot watch process %d", (int)pid);
  *fd = found;
  return 0;
}

bool shm_road_alive(int pidfd) {
  struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
  return poll(&poll_fd, 1, 0) == 0;
}
