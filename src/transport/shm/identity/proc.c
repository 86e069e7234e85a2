// Opens descriptors of other processes by /proc, if they are the files that they should be.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/identity/identity.h"

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

// Checks that `place`, which was opened with O_PATH and so does nothing to the file, is that file.
static int look(int place, pid_t pid, const struct shm_file *file, const char *what) {
  struct stat status;
  if (fstat(place, &status) != 0 || (status.st_mode & S_IFMT) != file->type || status.st_dev != file->device ||
      status.st_ino != file->inode)
    return fail(WEFT_ERR_UNREACHABLE, "%s of process %d is gone", what, (int)pid);
  if (shm_home_is_proof(place))
    return fail(WEFT_ERR_AUTH, "process %d names a file of this process as its own", (int)pid);
  return 0;
}

int shm_proc_open(pid_t pid, int fd, int flags, const struct shm_file *file, const char *what, int *opened) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
  int place = open(path, O_PATH | O_CLOEXEC);
  if (place < 0)
    return cannot_open(errno, pid, what);
  int rc = look(place, pid, file, what);
  if (rc == 0) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    int found = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (found < 0)
      rc = cannot_open(errno, pid, what);
    else
      *opened = found;
  }
  close(place);
  return rc;
}

int shm_proc_pidfd(pid_t pid, int *fd) {
  int found = (int)syscall(SYS_pidfd_open, pid, 0);
  if (found < 0 && errno == ESRCH)
    return fail(WEFT_ERR_UNREACHABLE, "process %d is gone", (int)pid);
  if (found < 0)
    return fail_errno(errno, "cannot watch process %d", (int)pid);
  *fd = found;
  return 0;
}

bool shm_proc_alive(int pidfd) {
  struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
  return poll(&poll_fd, 1, 0) == 0;
}
