// Reads and updates batch.json.
#include "slurm/folder/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fail.h"
#include "measure/json_file.h"

enum { FORMAT = 1 };

const char *const slurm_reward_names[] = {[SLURM_REWARD_DEFAULT] = "default",
                                          [SLURM_REWARD_INVERSE] = "inverse",
                                          [SLURM_REWARD_NEGATIVE] = "negative",
                                          [SLURM_REWARD_IDENTITY] = "identity",
                                          NULL};
static const char *const words[] = {"afterok", "afterany", "after", NULL};

static int find(const char *const *names, const char *name) {
  for (int i = 0; names[i]; i++)
    if (name && strcmp(names[i], name) == 0)
      return i;
  return -1;
}

// A path in the file stays in the batch's directory.
static bool is_inside(const char *path) {
  if (!path || !*path || *path == '/')
    return false;
  for (; *path; path += strspn(path, "/")) {
    size_t length = strcspn(path, "/");
    if (length == 2 && strncmp(path, "..", 2) == 0)
      return false;
    path += length;
  }
  return true;
}

static int read_job(struct slurm_job_record *job, json_t *json, size_t index) {
  json_int_t id = 0;
  json_t *needs = NULL;
  int cancels = -1;
  if (json_unpack(json, "{s:s, s?s, s?i, s?s, s?I, s?o}", "name", &job->name, "script", &job->script, "cancels",
                  &cancels, "array", &job->array, "id", &id, "needs", &needs) != 0 ||
      (cancels < 0 && !is_inside(job->script)) || cancels >= (int)index || id < 0 || id > UINT32_MAX ||
      (needs && !json_is_array(needs)))
    return fail(WEFT_ERR_PROTOCOL, "jobs[%zu] is not as 'weft slurm' writes it: want name, script, array, needs, id",
                index);
  job->id = (uint32_t)id;
  job->cancels = cancels;
  job->needs = needs;
  for (size_t i = 0; i < json_array_size(needs); i++) {
    const json_t *need = json_array_get(needs, i), *of = json_object_get(need, "job");
    if (find(words, json_string_value(json_object_get(need, "type"))) < 0 || !json_is_integer(of) ||
        json_integer_value(of) < 0 || (size_t)json_integer_value(of) >= index)
      return fail(WEFT_ERR_PROTOCOL, "jobs[%zu].needs[%zu]: want a type and the number of a job before this one", index,
                  i);
  }
  return 0;
}

static int read_run(struct slurm_record *record, struct slurm_run_record *run, json_t *json, size_t index) {
  const char *reward = slurm_reward_names[SLURM_REWARD_DEFAULT];
  int job = 0, task = -1, step = 1, iteration = 1, phases = 0, nodes = 0, as_written = 0;
  json_t *action = NULL;
  if (json_unpack(json, "{s:s, s:s, s:s, s:i, s?i, s?i, s?i, s?i, s?i, s?s, s?o, s?b}", "id", &run->id, "test",
                  &run->test, "directory", &run->directory, "job", &job, "task", &task, "step", &step, "iteration",
                  &iteration, "phases", &phases, "nodes", &nodes, "reward", &reward, "action", &action, "as_written",
                  &as_written) != 0 ||
      !is_inside(run->directory) || strchr(run->test, '/') || job < 0 || (size_t)job >= record->num_jobs ||
      find(slurm_reward_names, reward) < 0)
    return fail(WEFT_ERR_PROTOCOL, "runs[%zu] is not as 'weft slurm' writes it: want id, test, directory and job",
                index);
  run->job = (uint32_t)job;
  record->jobs[job].num_runs++;
  run->task = task;
  run->step = (uint32_t)step;
  run->iteration = (uint32_t)iteration;
  run->phases = (uint32_t)phases;
  run->nodes = (uint32_t)nodes;
  run->action = action;
  run->as_written = as_written;
  run->reward = (enum slurm_reward)find(slurm_reward_names, reward);
  return 0;
}

// Older versions did not record that submission has begun: there it has begun if a job has a number.
static int read_begin(struct slurm_record *record) {
  const json_t *before = json_object_get(record->json, "last_before");
  json_int_t number = json_integer_value(before);
  if (before && (!json_is_integer(before) || number < 0 || number > UINT32_MAX))
    return fail(WEFT_ERR_PROTOCOL, "last_before is not as 'weft slurm' writes it: want the number of a job");
  record->begun = before != NULL;
  record->last_before = (uint32_t)number;
  for (size_t i = 0; i < record->num_jobs; i++)
    record->begun = record->begun || record->jobs[i].id;
  return 0;
}

static int read_record(struct slurm_record *record) {
  json_t *jobs = json_object_get(record->json, "jobs"), *runs = json_object_get(record->json, "runs");
  record->name = json_string_value(json_object_get(record->json, "name"));
  if (json_integer_value(json_object_get(record->json, "weft_slurm")) != FORMAT || !record->name ||
      json_array_size(jobs) == 0 || json_array_size(runs) == 0)
    return fail(WEFT_ERR_PROTOCOL, "want weft_slurm %d, a name, jobs and runs: another version has written it", FORMAT);
  record->num_jobs = json_array_size(jobs);
  record->num_runs = json_array_size(runs);
  record->jobs = calloc(record->num_jobs, sizeof *record->jobs);
  record->runs = calloc(record->num_runs, sizeof *record->runs);
  int err = record->jobs && record->runs ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %zu runs", record->num_runs);
  for (size_t i = 0; !err && i < record->num_jobs; i++)
    err = read_job(&record->jobs[i], json_array_get(jobs, i), i);
  for (size_t i = 0; !err && i < record->num_runs; i++)
    err = read_run(record, &record->runs[i], json_array_get(runs, i), i);
  return err ? err : read_begin(record);
}

int slurm_record_load(struct slurm_record *record, const char *directory) {
  *record = (struct slurm_record){.directory = realpath(directory, NULL)};
  if (!record->directory)
    return fail_errno(errno, "cannot find the directory %s", directory);
  char *path = slurm_record_path(record, NULL, SLURM_FILE_BATCH);
  int err = path ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a path");
  if (!err && access(path, F_OK) != 0)
    err = fail(WEFT_ERR_SYSTEM, "%s is not the directory of a batch: it has no %s", directory, SLURM_FILE_BATCH);
  if (!err)
    err = json_file_load(path, "the " SLURM_FILE_BATCH " of 'weft slurm run'", &record->json);
  if (!err && (err = read_record(record)) != 0)
    fail_context(err, "%s", path);
  free(path);
  if (err)
    slurm_record_free(record);
  return err;
}

void slurm_record_free(struct slurm_record *record) {
  free(record->directory);
  free(record->jobs);
  free(record->runs);
  json_decref(record->json);
  *record = (struct slurm_record){0};
}

char *slurm_record_path(const struct slurm_record *record, const struct slurm_run_record *run, const char *name) {
  char *path = NULL;
  int made = run ? asprintf(&path, "%s/%s/%s", record->directory, run->directory, name)
                 : asprintf(&path, "%s/%s", record->directory, name);
  return made < 0 ? NULL : path;
}

// Sets a member of a part of the document, and leaves the rest as it is.
static int note(struct slurm_record *record, json_t *part, const char *member, uint32_t id) {
  char *path = slurm_record_path(record, NULL, SLURM_FILE_BATCH);
  int err = path && json_object_set_new(part, member, json_integer(id)) == 0 ? 0 : WEFT_ERR_NOMEM;
  if (err)
    fail(err, "no memory for the number of a job");
  else
    err = json_file_save(record->json, AT_FDCWD, path);
  free(path);
  return err;
}

int slurm_record_begin(struct slurm_record *record, uint32_t last_before) {
  record->begun = true;
  record->last_before = last_before;
  return note(record, record->json, "last_before", last_before);
}

int slurm_record_submitted(struct slurm_record *record, size_t job, uint32_t id) {
  record->jobs[job].id = id;
  return note(record, json_array_get(json_object_get(record->json, "jobs"), job), "id", id);
}

int slurm_record_lock(const struct slurm_record *record, int *fd) {
  char *path = slurm_record_path(record, NULL, "lock");
  int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1, err = 0;
  if (file < 0)
    err = fail_errno(path ? errno : ENOMEM, "cannot open %s/lock", record->directory);
  else if (flock(file, LOCK_EX | LOCK_NB) != 0)
    err = errno == EWOULDBLOCK
              ? fail(WEFT_ERR_BUSY, "another 'weft slurm' is submitting %s: wait until it is done", record->directory)
              : fail_errno(errno, "cannot lock %s/lock", record->directory);
  free(path);
  if (err && file >= 0)
    close(file);
  else if (!err)
    *fd = file;
  return err;
}
