#include "run/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#define EVENTS "events.jsonl"

enum { TAIL_BYTES = 4096 };

// Makes `path` with its parents; `*kept` is the length of what was there before.
static int make_directories(char *path, size_t *kept) {
  *kept = 0;
  for (size_t size = strlen(path); size > 1 && path[size - 1] == '/'; size--)
    path[size - 1] = '\0';
  for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
    if (slash)
      *slash = '\0';
    bool made = mkdir(path, 0777) == 0;
    int failed = made || errno == EEXIST ? 0 : errno;
    if (failed)
      fail_errno(failed, "cannot make the run directory %s", path);
    else if (!made)
      *kept = strlen(path);
    if (slash)
      *slash = '/';
    if (failed)
      return WEFT_ERR_SYSTEM;
    if (!slash)
      return 0;
  }
}

// Takes away what make_directories() made, as far as it is empty.
static void remove_directories(char *path, size_t kept) {
  while (strlen(path) > kept && (rmdir(path) == 0 || errno == ENOENT)) {
    char *slash = strrchr(path, '/');
    if (!slash)
      return;
    *slash = '\0';
  }
}

static char *default_path(const char *run, const char *suffix) {
  char *path = NULL, date[32];
  struct tm utc;
  time_t now = time(NULL);
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", &utc);
  return asprintf(&path, "weft-run/%s-%.8s%s", date, run, suffix) < 0 ? NULL : path;
}

// Only one run can have it: a second one, or a second agent, would mix its files with the first one's.
static int open_events(struct run_directory *directory) {
  char *path = run_directory_file(directory, EVENTS);
  if (!path)
    return fail(WEFT_ERR_NOMEM, "no memory for the run directory's path");
  int err = 0;
  directory->events = fopen(path, "wxe");
  if (!directory->events && errno == EEXIST)
    err = fail(WEFT_ERR_BUSY, "the run directory %s holds a run already: want another one, or remove it first",
               directory->path);
  else if (!directory->events)
    err = fail_errno(errno, "cannot write %s", path);
  free(path);
  return err == WEFT_ERR_LIMIT ? WEFT_ERR_SYSTEM : err;
}

int run_directory_open(struct run_directory *directory, const char *path, const char *run, const char *suffix) {
  struct run_directory opened = {.path = path ? strdup(path) : default_path(run, suffix)};
  if (!opened.path)
    return fail(WEFT_ERR_NOMEM, "no memory for the run directory's path");
  int err = opened.path[0] ? make_directories(opened.path, &opened.kept)
                           : fail(WEFT_ERR_INVALID, "the run directory's name is empty");
  if (!err)
    err = open_events(&opened);
  if (err) {
    remove_directories(opened.path, opened.kept);
    free(opened.path);
    return err;
  }
  *directory = opened;
  return 0;
}

void run_directory_discard(struct run_directory *directory) {
  static const char *const names[] = {EVENTS, "host.json", "config.json", "plan.json"};
  for (size_t i = 0; directory->path && i < sizeof names / sizeof names[0]; i++) {
    char *path = run_directory_file(directory, names[i]);
    if (path)
      unlink(path);
    free(path);
  }
  if (directory->path)
    remove_directories(directory->path, directory->kept);
  run_directory_close(directory);
}

void run_directory_close(struct run_directory *directory) {
  if (directory->events)
    fclose(directory->events);
  free(directory->path);
  *directory = (struct run_directory){0};
}

char *run_directory_file(const struct run_directory *directory, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s", directory->path, name) < 0 ? NULL : path;
}

char *run_directory_log(const struct run_directory *directory, int32_t rank) {
  char name[32];
  snprintf(name, sizeof name, "rank-%d.log", rank);
  return run_directory_file(directory, name);
}

int run_directory_save(const struct run_directory *directory, const char *name, json_t *json) {
  char *path = run_directory_file(directory, name);
  int err = path && json ? 0 : fail(WEFT_ERR_NOMEM, "no memory to write %s", name);
  if (!err && json_dump_file(json, path, JSON_INDENT(2)))
    err = fail_errno(errno, "cannot write %s", path);
  json_decref(json);
  free(path);
  return err;
}

void run_directory_lost(struct run_directory *directory, const char *name, int error) {
  if (!directory->lost[0])
    snprintf(directory->lost, sizeof directory->lost, "%s lacks what could not be written (%s)", name, strerror(error));
}

void run_directory_event(struct run_directory *directory, const char *kind, json_t *rest) {
  json_t *event = json_pack("{s:I, s:s}", "time_ns", (json_int_t)clock_ns(), "kind", kind);
  if (rest)
    json_object_update(event, rest);
  json_decref(rest);
  char *line = json_dumps(event, JSON_COMPACT);
  // What was seen must be there, whatever comes next.
  if (line && directory->events && (fprintf(directory->events, "%s\n", line) < 0 || fflush(directory->events)))
    run_directory_lost(directory, EVENTS, errno);
  free(line);
  json_decref(event);
}

void run_directory_log_tail(const struct run_directory *directory, int32_t rank, unsigned lines, struct text *text) {
  char *path = run_directory_log(directory, rank), tail[TAIL_BYTES + 1];
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  free(path);
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
