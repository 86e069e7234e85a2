// results.json on disk.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
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

static int save_json(const json_t *json, const char *path) {
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.%016" PRIx64 ".tmp", path, random_id()) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory to write %s", path);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int err = fd < 0 ? fail_errno(errno, "%s: cannot create it", temporary) : write_file(fd, json, temporary);
  if (!err && rename(temporary, path))
    err = fail_errno(errno, "%s: cannot rename %s to it", path, temporary);
  if (err && fd >= 0)
    unlink(temporary);
  free(temporary);
  return err;
}

int results_save(const struct results *results, const char *path) {
  json_t *json = results_to_json(results);
  if (!json)
    return fail_context(WEFT_ERR_INVALID, "%s", path);
  int err = save_json(json, path);
  json_decref(json);
  return err;
}

int results_load(struct results *results, const char *path) {
  FILE *file = fopen(path, "re");
  if (!file)
    return fail_errno(errno, "%s: cannot open it", path);
  json_error_t where;
  errno = 0;
  json_t *json = json_loadf(file, 0, &where);
  int err = 0;
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
