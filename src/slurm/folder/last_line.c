// Finds the most useful last line in the logs of a run.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/printable.h"
#include "base/text/text.h"
#include "measure/json_file.h"
#include "slurm/folder/state.h"

enum {
  TAIL = 4096, // bytes that are read at the end of a log
  LINE = 205,  // room for what is shown of a line
};

// How useful a log is to explain a failure: most useful is that of a node for which srun reported an error.
enum { OF_JOB, OF_PRE_TEST, OF_NODE, OF_FAILED_NODE };

struct found {
  char *name, *line;
  int rank;
  struct timespec time;
};

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static int rank_of(const char *name) {
  size_t length = strlen(name);
  if (begins(name, "node-") && length > 4 && strcmp(name + length - 4, ".log") == 0)
    return OF_NODE;
  return strcmp(name, "pre_test.log") == 0 ? OF_PRE_TEST : strcmp(name, "job.log") == 0 ? OF_JOB : -1;
}

// Returns the last line that says more than that a step failed or where to find help. The caller frees it.
static char *choose_line(char *tail, int *rank) {
  char *chosen = NULL, *state, *any = NULL;
  for (char *line = strtok_r(tail, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
    if (*rank == OF_NODE && begins(line, "srun: error: "))
      *rank = OF_FAILED_NODE;
    any = line;
    if (!begins(line, "srun: ") && !begins(line, "Try '"))
      chosen = line;
  }
  chosen = chosen ? chosen : any;
  return chosen ? strdup(chosen) : NULL;
}

static char *read_line(const char *path, int *rank, struct timespec *time) {
  char tail[TAIL + 1];
  struct stat info;
  FILE *file = NULL;
  if (json_file_open(path, "a log", &file) != 0)
    return NULL;
  long skipped = fstat(fileno(file), &info) == 0 && info.st_size > TAIL ? (long)(info.st_size - TAIL) : 0;
  size_t size = fseek(file, skipped, SEEK_SET) == 0 ? fread(tail, 1, TAIL, file) : 0;
  fclose(file);
  tail[size] = '\0';
  *time = info.st_mtim;
  char *whole = skipped ? strchr(tail, '\n') : NULL; // an incomplete first line is used only if it is the last
  return choose_line(whole && whole[1] ? whole : tail, rank);
}

// If steps failed on several nodes, the node whose log changed first counts: the others were ended because of it.
static bool is_better(const struct found *one, const struct found *than) {
  if (!than->line || one->rank != than->rank)
    return !than->line || one->rank > than->rank;
  return one->time.tv_sec < than->time.tv_sec ||
         (one->time.tv_sec == than->time.tv_sec && one->time.tv_nsec < than->time.tv_nsec);
}

static void offer(struct found *best, const char *directory, const char *name) {
  struct found one = {.rank = rank_of(name)};
  char *path = NULL;
  if (one.rank < 0 || asprintf(&path, "%s/%s", directory, name) < 0)
    return;
  one.line = read_line(path, &one.rank, &one.time);
  free(path);
  one.name = one.line && is_better(&one, best) ? strdup(name) : NULL;
  struct found *worse = one.name ? best : &one;
  free(worse->line);
  free(worse->name);
  if (one.name)
    *best = one;
}

// What the script has found in the logs: the first line of its file. False: there is no such file.
static bool read_fatal(char *out, size_t cap, const char *directory) {
  char *path = NULL, line[LINE];
  FILE *file = NULL;
  bool found = asprintf(&path, "%s/" SLURM_FILE_FATAL, directory) >= 0 &&
               json_file_open(path, "a line of a log", &file) == 0 && fgets(line, sizeof line, file);
  if (file)
    fclose(file);
  free(path);
  if (!found)
    return false;
  line[strcspn(line, "\n")] = '\0';
  printable_line(line);
  snprintf(out, cap, "%s", line);
  return true;
}

void slurm_last_line(char *out, size_t cap, const char *directory) {
  struct found best = {0};
  if (read_fatal(out, cap, directory))
    return;
  DIR *list = opendir(directory);
  for (struct dirent *entry; list && (entry = readdir(list)) != NULL;)
    offer(&best, directory, entry->d_name);
  if (list)
    closedir(list);
  *out = '\0';
  if (best.line) {
    printable_line(best.name);
    printable_line(best.line);
    char line[LINE];
    text_fit(line, sizeof line, best.line);
    snprintf(out, cap, "%s ends: %s", best.name, line);
  }
  free(best.name);
  free(best.line);
}
