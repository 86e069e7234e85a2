// results.json on disk.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "measure/report.h"
#include "measure/results.h"

// Writes, and takes care that it is on the disk before the rename makes it the results.
static int write_file(int fd, const json_t *json, const char *path) {
  FILE *file = fdopen(fd, "w");
  if (!file) {
    int err = fail_errno(errno, "%s: cannot write it", path);
    close(fd);
    return err;
  }
  errno = 0;
  bool failed = json_dumpf(json, file, REPORT_JSON_FLAGS) || fputc('\n', file) == EOF || fflush(file) || fsync(fd);
  int cause = errno;
  if (fclose(file) && !failed) {
    failed = true;
    cause = errno;
  }
  return failed ? fail_errno(cause, "%s: cannot write it", path) : 0;
}

static int save_json(const json_t *json, int directory, const char *name) {
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.%016" PRIx64 ".tmp", name, random_id()) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory to write %s", name);
  int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int err = fd < 0 ? fail_errno(errno, "%s: cannot create it", temporary) : write_file(fd, json, temporary);
  // A link that has the name is replaced, not followed.
  if (!err && renameat(directory, temporary, directory, name))
    err = fail_errno(errno, "%s: cannot rename %s to it", name, temporary);
  if (err && fd >= 0)
    unlinkat(directory, temporary, 0);
  free(temporary);
  return err;
}

int results_save(const struct results *results, int directory, const char *name) {
  json_t *json = results_to_json(results);
  if (!json)
    return fail_context(WEFT_ERR_INVALID, "%s", name);
  int err = save_json(json, directory, name);
  json_decref(json);
  return err;
}

// A regular file, at which opening and reading do not wait.
static int open_regular(const char *path, FILE **file) {
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
    err = fail(WEFT_ERR_SYSTEM, "%s: not a regular file: want the results.json of a run", path);
  else if (!(*file = fdopen(fd, "r")))
    err = fail_errno(errno, "%s: cannot read it", path);
  if (err)
    close(fd);
  return err;
}

int results_load(struct results *results, const char *path) {
  FILE *file = NULL;
  int err = open_regular(path, &file);
  if (err)
    return err;
  json_error_t where;
  errno = 0;
  json_t *json = json_loadf(file, 0, &where);
  if (ferror(file))
    err = fail_errno(errno, "%s: cannot read it", path);
  else if (!json)
    err = fail(WEFT_ERR_PROTOCOL, "%s: not JSON: line %d, column %d: %s", path, where.line, where.column, where.text);
  fclose(file);
  if (!err) {
    err = results_from_json(results, json);
    err = err ? fail_context(err, "%s", path) : 0;
  }
  json_decref(json);
  return err;
}
