// Files of the run directory: events, JSON documents and the logs of ranks.
#include "run/directory/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"

#define EVENTS "events.jsonl"

enum { TAIL_BYTES = 4096, LOG_NAME = 32 };

// Files that may exist when a run does not begin.
static const char *const discarded[] = {EVENTS, "host.json", "config.json", "plan.json"};

static char *default_path(const char *run, const char *suffix) {
  char *path = NULL, date[32];
  struct tm utc;
  time_t now = time(NULL);
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", &utc);
  return asprintf(&path, "weft-run/%s-%.8s%s", date, run, suffix) < 0 ? NULL : path;
}

// Creates a new file. If the name exists already, it fails and changes nothing.
static FILE *create(struct run_directory *directory, const char *name) {
  int fd = openat(directory->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return NULL;
  for (unsigned i = 0; i < sizeof discarded / sizeof discarded[0]; i++)
    if (strcmp(name, discarded[i]) == 0)
      directory->files |= 1u << i;
  FILE *file = fdopen(fd, "w");
  if (!file)
    close(fd);
  return file;
}

static bool holds(const struct run_directory *directory, const char *name) {
  return faccessat(directory->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Only one run can use a directory. A second run or a second node would mix its files with those of the first.
static int open_events(struct run_directory *directory) {
  if (holds(directory, "results.json") && !holds(directory, EVENTS)) // not from a run, which has both files
    return fail(WEFT_ERR_BUSY,
                "the run directory %s has a results.json already: want another one (" RUN_DIRECTORY_OTHER ")",
                directory->path);
  directory->events = create(directory, EVENTS);
  if (directory->events)
    return 0;
  if (errno == EEXIST)
    return fail(WEFT_ERR_BUSY,
                "the run directory %s holds a run already: want another one (" RUN_DIRECTORY_OTHER
                "), or remove it first",
                directory->path);
  int err = fail_errno(errno, "cannot write %s/%s (" RUN_DIRECTORY_OTHER ")", directory->path, EVENTS);
  return err == WEFT_ERR_LIMIT ? WEFT_ERR_SYSTEM : err;
}

int run_directory_open(struct run_directory *directory, const char *path, const char *run, const char *suffix) {
  struct run_directory opened = {.path = path ? strdup(path) : default_path(run, suffix), .fd = -1, .base = -1};
  if (!opened.path)
    return fail(WEFT_ERR_NOMEM, "no memory for the run directory's path");
  for (size_t size = strlen(opened.path); size > 1 && opened.path[size - 1] == '/'; size--)
    opened.path[size - 1] = '\0';
  int err = opened.path[0] ? run_directory_make(&opened) : fail(WEFT_ERR_INVALID, "the run directory's name is empty");
  if (!err)
    err = open_events(&opened);
  if (err)
    run_directory_discard(&opened);
  else
    *directory = opened;
  return err;
}

void run_directory_discard(struct run_directory *directory) {
  for (unsigned i = 0; directory->path && i < sizeof discarded / sizeof discarded[0]; i++)
    if (directory->files & 1u << i)
      unlinkat(directory->fd, discarded[i], 0);
  if (directory->path)
    run_directory_unmake(directory);
  run_directory_close(directory);
}

void run_directory_close(struct run_directory *directory) {
  if (!directory->path)
    return;
  if (directory->events)
    fclose(directory->events);
  if (directory->fd >= 0)
    close(directory->fd);
  if (directory->base >= 0)
    close(directory->base);
  free(directory->path);
  *directory = (struct run_directory){0};
}

int run_directory_save(struct run_directory *directory, const char *name, json_t *json) {
  if (!json)
    return fail(WEFT_ERR_NOMEM, "no memory to write %s", name);
  FILE *file = create(directory, name);
  int error = file ? 0 : errno;
  errno = EIO; // jansson may fail without setting errno
  if (file && json_dumpf(json, file, JSON_INDENT(2)))
    error = errno;
  if (file && fclose(file) && !error)
    error = errno;
  json_decref(json);
  if (error == EEXIST)
    return fail(WEFT_ERR_BUSY,
                "%s/%s exists already: want another run directory (" RUN_DIRECTORY_OTHER "), or remove it first",
                directory->path, name);
  return error ? fail_errno(error, "cannot write %s/%s (" RUN_DIRECTORY_OTHER ")", directory->path, name) : 0;
}

static void name_log(char name[LOG_NAME], int32_t rank) {
  snprintf(name, LOG_NAME, "rank-%d.log", rank);
}

int run_directory_open_log(const struct run_directory *directory, int32_t rank, int *fd) {
  char name[LOG_NAME];
  struct stat status;
  name_log(name, rank);
  // Non-blocking, since to open a FIFO without a reader would block.
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int opened = openat(directory->fd, name, flags, 0600);
  if (opened < 0)
    return fail_errno(errno, "cannot open the log %s/%s", directory->path, name);
  int err = 0;
  if (fstat(opened, &status) != 0)
    err = fail_errno(errno, "cannot stat the log %s/%s", directory->path, name);
  else if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1)
    err = fail(WEFT_ERR_SYSTEM,
               "the log %s/%s is not a regular file of this user, or has a second name: want another run directory "
               "(" RUN_DIRECTORY_OTHER ")",
               directory->path, name);
  else
    fcntl(opened, F_SETFL, O_APPEND);
  if (err)
    close(opened);
  else
    *fd = opened;
  return err;
}

void run_directory_lost(struct run_directory *directory, const char *name, int error) {
  if (!directory->lost[0]) {
    fail_errno(error, "%s is incomplete: writing failed", name);
    snprintf(directory->lost, sizeof directory->lost, "%s", weft_last_error());
  }
}

void run_directory_event(struct run_directory *directory, const char *kind, json_t *rest) {
  json_t *event = json_pack("{s:I, s:s}", "time_ns", (json_int_t)clock_ns(), "kind", kind);
  if (rest)
    json_object_update(event, rest);
  json_decref(rest);
  char *line = json_dumps(event, JSON_COMPACT);
  // Each event is flushed, so that it is in the file even after a crash.
  if (line && directory->events && (fprintf(directory->events, "%s\n", line) < 0 || fflush(directory->events)))
    run_directory_lost(directory, EVENTS, errno);
  free(line);
  json_decref(event);
}

void run_directory_log_tail(const struct run_directory *directory, int32_t rank, unsigned lines, struct text *text) {
  char name[LOG_NAME], tail[TAIL_BYTES + 1];
  name_log(name, rank);
  int fd = openat(directory->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return;
  off_t end = lseek(fd, 0, SEEK_END), begin = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
  ssize_t size = pread(fd, tail, TAIL_BYTES, begin);
  close(fd);
  if (size <= 0)
    return;
  while (size > 0 && tail[size - 1] == '\n')
    size--;
  tail[size] = '\0';
  char *first = tail + size;
  for (unsigned i = 0; i < lines && first > tail; i += *first == '\n')
    first--;
  if (*first == '\n')
    first++;
  for (char *save = NULL, *line = strtok_r(first, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
    text_add(text, "\n  | %s", line);
}
