// Files that are written whole or not at all.
#include "measure/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"

enum { FOR_ALL = 0666, FOR_THIS_USER = 0600 };

int whole_file_check_place(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0)
    return errno == ENOENT ? 0 : fail_errno(errno, "%s: cannot look at it", path);
  if (S_ISREG(status.st_mode))
    return 0;
  return fail(WEFT_ERR_SYSTEM, "%s: %s: want the name of a file, which is made or replaced", path,
              S_ISDIR(status.st_mode)   ? "it is a directory"
              : S_ISLNK(status.st_mode) ? "it is a link"
                                        : "it is no regular file");
}

static int create(const char *path, mode_t mode, char **temporary, int *fd) {
  int err = whole_file_check_place(path);
  if (err)
    return err;
  if (asprintf(temporary, "%s.%016" PRIx64 ".tmp", path, random_id()) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory to write %s", path);
  *fd = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (*fd >= 0)
    return 0;
  err = fail_errno(errno, "%s: cannot create it", path);
  free(*temporary);
  return err;
}

static int fill(int fd, const char *path, whole_file_fn write, const void *arg) {
  FILE *out = fdopen(fd, "w");
  if (!out) {
    int err = fail_errno(errno, "%s: cannot write it", path);
    close(fd);
    return err;
  }
  errno = 0;
  int err = write(out, arg);
  if (err)
    fail_context(err, "%s", path);
  bool failed = !err && (fflush(out) || ferror(out) || fsync(fd));
  int cause = errno;
  if (fclose(out) && !err && !failed) {
    failed = true;
    cause = errno;
  }
  return failed ? fail_errno(cause, "%s: cannot write it", path) : err;
}

static int save(const char *path, mode_t mode, whole_file_fn write, const void *arg) {
  char *temporary = NULL;
  int fd = -1, err = create(path, mode, &temporary, &fd);
  if (err)
    return err;
  err = fill(fd, path, write, arg);
  if (!err && rename(temporary, path))
    err = fail_errno(errno, "%s: cannot rename %s to it", path, temporary);
  if (err)
    unlink(temporary);
  free(temporary);
  return err;
}

int whole_file_save(const char *path, whole_file_fn write, const void *arg) {
  return save(path, FOR_ALL, write, arg);
}

int whole_file_save_private(const char *path, whole_file_fn write, const void *arg) {
  return save(path, FOR_THIS_USER, write, arg);
}

int whole_file_check(const char *path) {
  char *temporary = NULL;
  int fd = -1, err = create(path, FOR_ALL, &temporary, &fd);
  if (err)
    return err;
  close(fd);
  unlink(temporary);
  free(temporary);
  return 0;
}
