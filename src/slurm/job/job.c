// Calls sbatch, squeue and scancel. It uses squeue's text format, since its JSON has other members in each release.
#include "slurm/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "slurm/job/command.h"

enum { FIELDS = 6, MAX_WORDS = 12 };

int slurm_job_submit(const struct slurm_submit *submit, uint32_t *id) {
  struct text out = {0}, words[5] = {{0}};
  const char *argv[MAX_WORDS] = {"sbatch", submit->test_only ? "--test-only" : "--parsable"};
  size_t count = 2;
  text_add(&words[0], "--job-name=%s", submit->name);
  text_add(&words[1], "--chdir=%s", submit->directory);
  argv[count++] = words[0].data;
  argv[count++] = words[1].data;
  if (submit->array) {
    text_add(&words[2], "--array=%s", submit->array);
    argv[count++] = words[2].data;
  }
  if (submit->dependencies) { // a job that can never run is then cancelled instead of waiting for ever
    text_add(&words[3], "--dependency=%s", submit->dependencies);
    argv[count++] = words[3].data;
    argv[count++] = "--kill-on-invalid-dep=yes";
  }
  if (submit->wrap) {
    text_add(&words[4], "--wrap=%s", submit->wrap);
    argv[count++] = words[4].data;
    argv[count++] = "--ntasks=1";
    argv[count++] = "--output=/dev/null";
  } else {
    argv[count++] = submit->script;
  }
  int err = slurm_command(&out, SLURM_COMMAND_MS, argv, submit->wrap ? NULL : submit->script);
  unsigned long number = 0;
  if (!err && !submit->test_only) {
    number = out.data ? strtoul(out.data, NULL, 10) : 0;
    if (number == 0 || number > UINT32_MAX)
      err = fail(WEFT_ERR_PROTOCOL, "sbatch printed '%s', but should print the number of the job",
                 out.data ? out.data : "");
  }
  if (!err)
    *id = (uint32_t)number;
  text_free(&out);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    text_free(&words[i]);
  return err;
}

static void copy_field(char *to, size_t cap, const char *from) {
  snprintf(to, cap, "%s", from);
}

// Reads "12", "12_3" for a task of an array, or "12+1" for a part of a heterogeneous job, which is none of Weft's.
static bool read_id(struct slurm_job *job, const char *text) {
  char *end;
  job->id = (uint32_t)strtoul(text, &end, 10);
  job->task = -1;
  if (*end == '_')
    job->task = (int32_t)strtol(end + 1, &end, 10);
  else if (*end == '+')
    strtoul(end + 1, &end, 10);
  return job->id > 0 && *end == '\0';
}

static int read_line(struct slurm_job *job, char *line) {
  char *field[FIELDS], *rest = line;
  size_t count = 0;
  for (; count < FIELDS && rest; count++)
    field[count] = strsep(&rest, count + 1 < FIELDS ? "|" : ""); // paths may have any character
  if (count != FIELDS || !read_id(job, field[0]))
    return fail(WEFT_ERR_PROTOCOL, "squeue printed '%s', but should print ID|STATE|REASON|NODES|NAME|DIRECTORY", line);
  copy_field(job->state, sizeof job->state, field[1]);
  copy_field(job->reason, sizeof job->reason, field[2]);
  copy_field(job->nodes, sizeof job->nodes, field[3]);
  copy_field(job->name, sizeof job->name, field[4]);
  copy_field(job->directory, sizeof job->directory, field[5]);
  return 0;
}

int slurm_jobs_parse(struct slurm_jobs *jobs, const char *text) {
  char *copy = strdup(text), *rest = copy, *line;
  int err = copy ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a list of jobs");
  size_t room = 1;
  for (const char *at = text; *at; at++)
    room += *at == '\n';
  *jobs = (struct slurm_jobs){.list = calloc(room, sizeof *jobs->list)};
  if (!err && !jobs->list)
    err = fail(WEFT_ERR_NOMEM, "no memory for a list of jobs");
  while (!err && (line = strsep(&rest, "\n")) != NULL)
    if (*line) {
      err = read_line(&jobs->list[jobs->count], line);
      jobs->count += !err;
    }
  free(copy);
  if (err)
    slurm_jobs_free(jobs);
  return err;
}

int slurm_jobs_read(struct slurm_jobs *jobs) {
  const char *argv[] = {"squeue", "--me", "--array", "--noheader", "--states=all", "--format=%i|%T|%r|%N|%j|%Z", NULL};
  struct text out = {0};
  int err = slurm_command(&out, SLURM_COMMAND_MS, argv, NULL);
  if (!err)
    err = slurm_jobs_parse(jobs, out.data ? out.data : "");
  text_free(&out);
  return err;
}

void slurm_jobs_free(struct slurm_jobs *jobs) {
  free(jobs->list);
  *jobs = (struct slurm_jobs){0};
}

const struct slurm_job *slurm_jobs_find(const struct slurm_jobs *jobs, uint32_t id, int32_t task) {
  for (size_t i = 0; i < jobs->count; i++)
    if (jobs->list[i].id == id && (task < 0 || jobs->list[i].task == task))
      return &jobs->list[i];
  return NULL;
}

const struct slurm_job *slurm_jobs_named(const struct slurm_jobs *jobs, const char *name, const char *directory,
                                         uint32_t after) {
  for (size_t i = 0; i < jobs->count; i++)
    if (jobs->list[i].id > after && strcmp(jobs->list[i].name, name) == 0 &&
        strcmp(jobs->list[i].directory, directory) == 0)
      return &jobs->list[i];
  return NULL;
}

static bool is_one_of(const char *state, const char *const *names) {
  for (; *names; names++)
    if (strcmp(state, *names) == 0)
      return true;
  return false;
}

bool slurm_job_waits(const struct slurm_job *job) {
  static const char *const names[] = {"PENDING",     "CONFIGURING",  "REQUEUED",      "REQUEUE_HOLD",
                                      "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", NULL};
  return is_one_of(job->state, names);
}

bool slurm_job_ended(const struct slurm_job *job) {
  static const char *const names[] = {"COMPLETED", "FAILED",   "CANCELLED",     "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                                      "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", NULL};
  return is_one_of(job->state, names);
}

int slurm_job_cancel(uint32_t id, int32_t task) {
  char name[32];
  struct text out = {0};
  if (task < 0)
    snprintf(name, sizeof name, "%u", id);
  else
    snprintf(name, sizeof name, "%u_%d", id, task);
  const char *argv[] = {"scancel", name, NULL};
  int err = slurm_command(&out, SLURM_COMMAND_MS, argv, NULL);
  text_free(&out);
  return err;
}
