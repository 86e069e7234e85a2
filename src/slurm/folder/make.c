// Makes the directory of a batch. batch.json is written last: if it exists, all other files are complete.
#include "slurm/folder/make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/fail.h"
#include "measure/json_file.h"
#include "measure/whole_file.h"
#include "slurm/folder/directory.h"
#include "slurm/folder/record.h"
#include "slurm/script/script.h"

enum { FORMAT = 1 };

static int write_text(FILE *out, const void *arg) {
  fputs(arg, out);
  return 0;
}

// Takes ownership of the text.
static int save(const char *directory, const char *name, struct text *text) {
  char *path = NULL;
  if (text->failed || !text->data || asprintf(&path, "%s/%s", directory, name) < 0) {
    text_free(text);
    return fail(WEFT_ERR_NOMEM, "no memory for %s", name);
  }
  int err = whole_file_save_private(path, write_text, text->data);
  free(path);
  text_free(text);
  return err;
}

static int write_run(const struct slurm_batch *batch, const struct slurm_run *run) {
  struct text env = {0}, toml = {0}, plan = {0}, script = {0};
  int err = slurm_directory_make(run->directory, strlen(batch->directory));
  slurm_script_write_env(&env, run);
  slurm_script_write_toml(&toml, batch, run);
  slurm_script_write(&script, batch, run);
  if (!err)
    err = save(run->directory, SLURM_FILE_ENV, &env);
  if (!err)
    err = save(run->directory, SLURM_FILE_RUN, &toml);
  if (!err)
    err = save(run->directory, SLURM_FILE_SCRIPT, &script);
  if (!err && run->plan) {
    text_add(&plan, "%s\n", run->plan);
    err = save(run->directory, SLURM_FILE_PLAN, &plan);
  }
  text_free(&env);
  text_free(&toml);
  text_free(&script);
  return err;
}

// --- batch.json ---

static const char *word_for(const struct slurm_need *need) {
  if (need->type == SLURM_START_POST_INIT)
    return "after";
  return need->type == SLURM_START_POST_COMP && need->only_if_passed ? "afterok" : "afterany";
}

static json_t *needs_to_json(const struct slurm_planned_job *job) {
  json_t *list = json_array();
  for (size_t i = 0; i < job->num_needs; i++)
    if (job->needs[i].type != SLURM_END_POST_COMP)
      json_array_append_new(list,
                            json_pack("{s:s, s:i}", "type", word_for(&job->needs[i]), "job", (int)job->needs[i].job));
  return list;
}

// Slurm has no dependency "ends with", so a job of one task cancels the job when the other one has ended.
static void add_cancellers(json_t *list, const struct slurm_planned_jobs *jobs) {
  for (size_t i = 0; i < jobs->count; i++)
    for (size_t n = 0; n < jobs->list[i].num_needs; n++)
      if (jobs->list[i].needs[n].type == SLURM_END_POST_COMP) {
        char name[256];
        snprintf(name, sizeof name, "%s.end%zu", jobs->list[i].name, n);
        json_array_append_new(list, json_pack("{s:s, s:i, s:[{s:s, s:i}]}", "name", name, "cancels", (int)i, "needs",
                                              "type", "afterany", "job", (int)jobs->list[i].needs[n].job));
      }
}

static json_t *jobs_to_json(const struct slurm_planned_jobs *jobs) {
  json_t *list = json_array();
  for (size_t i = 0; i < jobs->count; i++) {
    const struct slurm_planned_job *job = &jobs->list[i];
    json_t *json = json_pack("{s:s, s:s, s:o}", "name", job->name, "script", job->script, "needs", needs_to_json(job));
    if (json && job->array)
      json_object_set_new(json, "array", json_string(job->array));
    json_array_append_new(list, json);
  }
  add_cancellers(list, jobs);
  return list;
}

static json_t *run_to_json(const struct slurm_batch *batch, const struct slurm_run *run, size_t job, int task) {
  json_t *action = json_object();
  for (size_t i = 0; i < run->action.count; i++)
    json_object_set_new(action, run->action.list[i].name, json_string(run->action.list[i].value));
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:o}", "id", run->id, "test", run->test,
                "directory", run->directory + strlen(batch->directory) + 1, "job", (int)job, "task", task, "step",
                (int)run->step, "iteration", (int)run->iteration, "phases", (int)run->plan_phases, "nodes",
                (int)run->resources.num_nodes, "reward", slurm_reward_names[run->reward], "action", action);
  if (json && run->program == SLURM_AS_WRITTEN)
    json_object_set_new(json, "as_written", json_true());
  return json;
}

static json_t *batch_to_json(const struct slurm_batch *batch, const struct slurm_planned_jobs *jobs) {
  json_t *runs = json_array();
  for (size_t j = 0; j < jobs->count; j++)
    for (size_t i = 0; i < jobs->list[j].runs; i++)
      json_array_append_new(
          runs, run_to_json(batch, &batch->runs[jobs->list[j].first + i], j, jobs->list[j].array ? (int)i : -1));
  json_t *json = json_pack("{s:i, s:s, s:o, s:o}", "weft_slurm", FORMAT, "name", batch->name, "jobs",
                           jobs_to_json(jobs), "runs", runs);
  bool whole = json && json_array_size(runs) == batch->num_runs;
  if (whole)
    return json;
  json_decref(json);
  return NULL;
}

// Whether the file describes this batch, regardless of which jobs have been submitted.
static bool same_jobs(const json_t *json, const char *path) {
  json_t *there = NULL, *job;
  size_t index;
  if (json_file_load(path, "a batch", &there) != 0)
    return false;
  json_object_del(there, "last_before");
  json_array_foreach(json_object_get(there, "jobs"), index, job) json_object_del(job, "id");
  bool same = json_equal(there, json);
  json_decref(there);
  return same;
}

// Whether jobs of the batch in `path` have been submitted, or may have been. After --test-only none have.
static bool is_begun(const char *path) {
  json_t *there = NULL;
  bool begun = json_file_load(path, "a batch", &there) != 0 || !json_object_get(there, "weft_slurm") ||
               json_object_get(there, "last_before");
  json_decref(there);
  return begun;
}

static bool file_has(const char *path, const struct text *text) {
  char bytes[4096];
  FILE *file = NULL;
  size_t at = 0, got;
  if (text->failed || !text->data || json_file_open(path, "a run", &file) != 0)
    return false;
  while ((got = fread(bytes, 1, sizeof bytes, file)) > 0 && got <= text->size - at &&
         memcmp(bytes, text->data + at, got) == 0)
    at += got;
  bool same = got == 0 && at == text->size && !ferror(file);
  fclose(file);
  return same;
}

// Whether the run in the directory has the plan, sizes and resources of this run: run.toml contains all of them.
static bool same_run(const struct slurm_batch *batch, const struct slurm_run *run) {
  struct text toml = {0};
  char *path = NULL;
  slurm_script_write_toml(&toml, batch, run);
  bool same = asprintf(&path, "%s/" SLURM_FILE_RUN, run->directory) >= 0 && file_has(path, &toml);
  free(path);
  text_free(&toml);
  return same;
}

// BUSY: the directory has another batch.
static int check_same(const struct slurm_batch *batch, const json_t *json, const char *path) {
  static const char what[] =
      "give this batch another --name or --output-dir; 'weft slurm run DIR' continues the existing one";
  if (!same_jobs(json, path))
    return fail(WEFT_ERR_BUSY, "%s has another batch already: %s", batch->directory, what);
  for (size_t i = 0; i < batch->num_runs; i++)
    if (!same_run(batch, &batch->runs[i]))
      return fail(WEFT_ERR_BUSY,
                  "%s has another batch already, whose run %s is a different one (its " SLURM_FILE_RUN " says how): %s",
                  batch->directory, batch->runs[i].id, what);
  return 0;
}

static int write_all(const struct slurm_batch *batch, const struct slurm_planned_jobs *jobs, const json_t *json,
                     const char *path) {
  int err = slurm_directory_make(batch->directory, strlen(batch->directory));
  if (!err && unlink(path) != 0 && errno != ENOENT) // of a batch that was not begun
    err = fail_errno(errno, "cannot remove %s", path);
  for (size_t i = 0; !err && i < batch->num_runs; i++)
    err = write_run(batch, &batch->runs[i]);
  for (size_t i = 0; !err && i < jobs->count; i++) {
    struct text text = {0}; // of a job with several runs; a job of one run uses the run's script, written above
    text_add(&text, "%s", jobs->list[i].text);
    err = save(batch->directory, jobs->list[i].script, &text);
  }
  return err ? err : json_file_save(json, AT_FDCWD, path);
}

int slurm_folder_make(const struct slurm_batch *batch) {
  struct slurm_planned_jobs jobs = {0};
  char *path = NULL;
  json_t *json = NULL;
  int err = slurm_planned_jobs_make(&jobs, batch);
  if (!err &&
      ((json = batch_to_json(batch, &jobs)) == NULL || asprintf(&path, "%s/" SLURM_FILE_BATCH, batch->directory) < 0))
    err = fail(WEFT_ERR_NOMEM, "no memory for %zu runs", batch->num_runs);
  bool there = !err && access(path, F_OK) == 0 && is_begun(path);
  if (there)
    err = check_same(batch, json, path);
  if (!err && !there)
    err = write_all(batch, &jobs, json, path);
  slurm_planned_jobs_free(&jobs);
  json_decref(json);
  free(path);
  return err;
}
