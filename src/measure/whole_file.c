// Writes files either completely or not at all.
#include "measure/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"

enum { FOR_ALL = 0666, FOR_THIS_USER = 0600 };

int whole_file_check_place(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0)
    return errno == ENOENT ? 0 : fail_errno(errno, "%s: cannot stat it", path);
  if (S_ISREG(status.st_mode))
    return 0;
  return fail(WEFT_ERR_SYSTEM, "%s: %s: want the name of a file, which is made or replaced", path,
              S_ISDIR(status.st_mode)   ? "it is a directory"
              : S_ISLNK(status.st_mode) ? "it is a link"
                                        : "it is not a regular file");
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

static bool is_one(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// Finds the folder that contains a path.
static bool find_folder(const char *path, struct stat *folder) {
  char copy[PATH_MAX];
  return (size_t)snprintf(copy, sizeof copy, "%s", path) < sizeof copy && stat(dirname(copy), folder) == 0;
}

static const char *last_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool whole_file_is_one(const char *a, const char *b) {
  struct stat of_a, of_b;
  if (strcmp(a, b) == 0)
    return true;
  bool a_there = stat(a, &of_a) == 0, b_there = stat(b, &of_b) == 0;
  if (a_there || b_there)
    return a_there && b_there && is_one(&of_a, &of_b);
  return strcmp(last_of(a), last_of(b)) == 0 && find_folder(a, &of_a) && find_folder(b, &of_b) && is_one(&of_a, &of_b);
}

int whole_file_check_input(const char *option, const char *output, const char *input) {
  char results[PATH_MAX];
  if (!output || !input)
    return 0;
  bool fits = (size_t)snprintf(results, sizeof results, "%s/results.json", input) < sizeof results;
  if (!whole_file_is_one(output, input) && !(fits && whole_file_is_one(output, results)))
    return 0;
  return fail(WEFT_ERR_INVALID, "%s would be read and also written by --%s: want another file there", output, option);
}
