// JSON documents on disk.
#include "measure/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/text/digits.h"

#define FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON))

// Writes the file and flushes it to the disk, so that the later rename gives the name only to complete results.
static int write_file(int fd, const json_t *json, const char *path) {
  FILE *file = fdopen(fd, "w");
  if (!file) {
    int err = fail_errno(errno, "%s: cannot write it", path);
    close(fd);
    return err;
  }
  errno = 0;
  bool failed = json_dumpf(json, file, FLAGS) || fputc('\n', file) == EOF || fflush(file) || fsync(fd);
  int cause = errno;
  if (fclose(file) && !failed) {
    failed = true;
    cause = errno;
  }
  return failed ? fail_errno(cause, "%s: cannot write it", path) : 0;
}

int json_file_save(const json_t *json, int directory, const char *name) {
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.%016" PRIx64 ".tmp", name, random_id()) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory to write %s", name);
  int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int err = fd < 0 ? fail_errno(errno, "%s: cannot create it", name) : write_file(fd, json, name);
  // If the name is a link, the rename replaces the link, and does not follow it.
  if (!err && renameat(directory, temporary, directory, name))
    err = fail_errno(errno, "%s: cannot rename %s to it", name, temporary);
  if (err && fd >= 0)
    unlinkat(directory, temporary, 0);
  free(temporary);
  return err;
}

int json_file_open(const char *path, const char *want, FILE **file) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return fail_errno(errno, "%s: cannot open it", path);
  int err = 0;
  if (fstat(fd, &status) != 0)
    err = fail_errno(errno, "%s: cannot stat it", path);
  else if (S_ISDIR(status.st_mode))
    err = fail_errno(EISDIR, "%s: cannot read it", path);
  else if (!S_ISREG(status.st_mode))
    err = fail(WEFT_ERR_SYSTEM, "%s: not a regular file: want %s", path, want);
  else if (!(*file = fdopen(fd, "r")))
    err = fail_errno(errno, "%s: cannot read it", path);
  if (err)
    close(fd);
  return err;
}

int json_file_load(const char *path, const char *want, json_t **json) {
  FILE *file = NULL;
  int err = json_file_open(path, want, &file);
  if (err)
    return err;
  json_error_t where;
  errno = 0;
  json_t *read = json_loadf(file, 0, &where);
  if (ferror(file))
    err = fail_errno(errno, "%s: cannot read it", path);
  else if (!read)
    err = fail(WEFT_ERR_PROTOCOL, "%s: not JSON: line %d, column %d: %s", path, where.line, where.column, where.text);
  fclose(file);
  if (err)
    json_decref(read);
  else
    *json = read;
  return err;
}
