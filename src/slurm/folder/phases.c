// The phases of a run, by the events of its lead agent.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <jansson.h>

#include "measure/json_file.h"
#include "slurm/folder/state.h"

enum { HEAD = 4096 };

static bool has_word(const char *path, const char *word) {
  char head[HEAD];
  FILE *file = NULL;
  if (!word)
    return true;
  if (json_file_open(path, "events", &file) != 0)
    return false;
  size_t size = fread(head, 1, sizeof head, file);
  fclose(file);
  return memmem(head, size, word, strlen(word)) != NULL;
}

struct newest {
  const char *word;
  char *path;
  struct timespec time;
};

static bool is_later(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

// Takes ownership of `path`.
static void offer(struct newest *newest, char *path) {
  struct stat info;
  if (path && lstat(path, &info) == 0 && S_ISREG(info.st_mode) &&
      (!newest->path || is_later(&info.st_mtim, &newest->time)) && has_word(path, newest->word)) {
    free(newest->path);
    newest->path = path;
    newest->time = info.st_mtim;
    return;
  }
  free(path);
}

char *slurm_newest_file(const char *directory, const char *name, const char *word) {
  struct newest newest = {.word = word};
  char *path = NULL;
  DIR *list = opendir(directory);
  if (asprintf(&path, "%s/%s", directory, name) >= 0)
    offer(&newest, path);
  for (struct dirent *entry; list && (entry = readdir(list)) != NULL;)
    if (entry->d_name[0] != '.' && asprintf(&path, "%s/%s/%s", directory, entry->d_name, name) >= 0)
      offer(&newest, path);
  if (list)
    closedir(list);
  return newest.path;
}

static void take(struct slurm_phases *phases, const char *line, slurm_phase_fn *report, void *arg) {
  json_t *event = json_loads(line, 0, NULL);
  const char *kind = json_string_value(json_object_get(event, "kind"));
  json_int_t phase = json_integer_value(json_object_get(event, "phase"));
  bool begins = kind && strcmp(kind, "phase_begin") == 0;
  if ((begins || (kind && strcmp(kind, "phase_end") == 0)) && phase >= 0 && phase < INT32_MAX) {
    if (begins)
      phases->phase = (int32_t)phase + 1;
    if (report)
      report(arg, (uint32_t)phase, begins);
  }
  json_decref(event);
}

// Reads only complete lines: the last one may not be completely written yet.
static void read_lines(struct slurm_phases *phases, FILE *file, slurm_phase_fn *report, void *arg) {
  char *line = NULL;
  size_t cap = 0;
  ssize_t size;
  if (fseek(file, phases->offset, SEEK_SET) != 0)
    return;
  while ((size = getline(&line, &cap, file)) > 0 && line[size - 1] == '\n') {
    if (strstr(line, "\"phase_"))
      take(phases, line, report, arg);
    phases->offset = ftell(file);
  }
  free(line);
}

void slurm_phases_read(struct slurm_phases *phases, const char *run_directory, slurm_phase_fn *report, void *arg) {
  char *path = slurm_newest_file(run_directory, "events.jsonl", "\"run_begin\"");
  FILE *file = NULL;
  if (!path)
    return;
  if (!phases->path || strcmp(path, phases->path) != 0) {
    slurm_phases_free(phases);
    phases->path = path;
  } else {
    free(path);
  }
  if (json_file_open(phases->path, "events", &file) != 0)
    return;
  read_lines(phases, file, report, arg);
  fclose(file);
}

void slurm_phases_free(struct slurm_phases *phases) {
  free(phases->path);
  *phases = (struct slurm_phases){0};
}
