// Submission: each job once, whatever interrupts it.
#include "slurm/folder/submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "slurm/folder/directory.h"
#include "slurm/job/job.h"

static int add_dependencies(const struct slurm_record *record, const struct slurm_job_record *job, struct text *text) {
  for (size_t i = 0; i < json_array_size(job->needs); i++) {
    const json_t *need = json_array_get(job->needs, i);
    text_add(text, "%s%s:%u", text->size ? "," : "", json_string_value(json_object_get(need, "type")),
             record->jobs[json_integer_value(json_object_get(need, "job"))].id);
  }
  return text->failed ? fail(WEFT_ERR_NOMEM, "no memory for dependencies") : 0;
}

static int submit(const struct slurm_record *record, const struct slurm_job_record *job, bool test_only, uint32_t *id) {
  struct text needs = {0}, wrap = {0};
  char *script = slurm_record_path(record, NULL, job->script ? job->script : "");
  int err = script ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a path");
  if (!err && !test_only)
    err = add_dependencies(record, job, &needs);
  if (job->cancels >= 0)
    text_add(&wrap, "scancel %u", record->jobs[job->cancels].id);
  struct slurm_submit submit = {.script = script,
                                .directory = record->directory,
                                .wrap = wrap.data,
                                .name = job->name,
                                .dependencies = needs.data,
                                .array = job->array,
                                .test_only = test_only};
  if (!err && (err = slurm_job_submit(&submit, id)) != 0)
    fail_context(err, "job %s", job->name);
  free(script);
  text_free(&needs);
  text_free(&wrap);
  return err;
}

static bool any_left(const struct slurm_record *record) {
  for (size_t i = 0; i < record->num_jobs; i++)
    if (record->jobs[i].id == 0)
      return true;
  return false;
}

// Jobs that are in the queue before the first submission belong to an earlier batch of this name, whose directory is
// gone.
static int begin(struct slurm_record *record, const struct slurm_jobs *queue) {
  uint32_t last = 0;
  if (record->begun)
    return 0;
  for (size_t i = 0; i < queue->count; i++)
    if (strcmp(queue->list[i].directory, record->directory) == 0 && queue->list[i].id > last)
      last = queue->list[i].id;
  return slurm_record_begin(record, last);
}

static int submit_left(struct slurm_record *record, const struct slurm_jobs *queue, slurm_submitted_fn *submitted,
                       void *arg) {
  int err = begin(record, queue);
  for (size_t i = 0; !err && i < record->num_jobs; i++) {
    struct slurm_job_record *job = &record->jobs[i];
    const struct slurm_job *known =
        job->id ? NULL : slurm_jobs_named(queue, job->name, record->directory, record->last_before);
    bool again = job->id || known;
    uint32_t id = job->id;
    if (known)
      id = known->id;
    else if (!job->id)
      err = submit(record, job, false, &id);
    if (!err && !job->id)
      err = slurm_record_submitted(record, i, id);
    if (!err)
      submitted(arg, job, again);
  }
  return err;
}

// Refuses directories that others can write to: they could choose what the jobs of this user run.
static int check_directories(const struct slurm_record *record) {
  int err = slurm_directory_check(record->directory);
  for (size_t i = 0; !err && i < record->num_runs; i++) {
    char *path = slurm_record_path(record, &record->runs[i], "");
    if (path)
      path[strlen(path) - 1] = '\0'; // without its slash, which would make the check follow a symbolic link
    err = path ? slurm_directory_check(path) : fail(WEFT_ERR_NOMEM, "no memory for a path");
    free(path);
  }
  return err;
}

int slurm_submit(struct slurm_record *record, slurm_submitted_fn *submitted, void *arg) {
  struct slurm_jobs queue = {0};
  int lock = -1, err = check_directories(record);
  if (!err)
    err = slurm_record_lock(record, &lock);
  if (!err && any_left(record))
    err = slurm_jobs_read(&queue);
  if (!err)
    err = submit_left(record, &queue, submitted, arg);
  slurm_jobs_free(&queue);
  if (lock >= 0)
    close(lock);
  return err;
}

int slurm_submit_test(const struct slurm_record *record) {
  uint32_t id = 0;
  int err = check_directories(record);
  for (size_t i = 0; !err && i < record->num_jobs; i++)
    if (record->jobs[i].script)
      err = submit(record, &record->jobs[i], true, &id);
  return err;
}

// If a job cannot be cancelled, for instance because it ends meanwhile, the others still are. If Slurm does not answer,
// the loop ends.
int slurm_batch_cancel(const struct slurm_record *record, size_t *count) {
  struct slurm_jobs queue = {0};
  char why[512] = "";
  int err = slurm_jobs_read(&queue), first = 0;
  *count = 0;
  for (size_t i = 0; !err && first != WEFT_ERR_TIMEOUT && i < queue.count; i++)
    for (size_t j = 0; j < record->num_jobs; j++)
      if (record->jobs[j].id == queue.list[i].id && !slurm_job_ended(&queue.list[i])) {
        int failed = slurm_job_cancel(queue.list[i].id, queue.list[i].task);
        *count += !failed;
        if (failed && (!first || failed == WEFT_ERR_TIMEOUT)) {
          first = failed;
          snprintf(why, sizeof why, "job %u: %s", queue.list[i].id, weft_last_error());
        }
      }
  slurm_jobs_free(&queue);
  if (first)
    return fail(first, "%s; %zu job%s cancelled", why, *count, *count == 1 ? " was" : "s were");
  return err;
}
