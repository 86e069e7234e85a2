// Divides a batch into jobs: one for each run, an array for each test, or one for all.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "slurm/script/script.h"

static struct slurm_planned_job *add(struct slurm_planned_jobs *jobs, size_t first, size_t runs) {
  struct slurm_planned_job *list = realloc(jobs->list, (jobs->count + 1) * sizeof *list);
  if (!list)
    return NULL;
  jobs->list = list;
  list[jobs->count] = (struct slurm_planned_job){.first = first, .runs = runs};
  return &list[jobs->count++];
}

static bool print(char **to, struct text *text) {
  *to = text_take(text);
  return *to != NULL;
}

// Path of a file in a run's directory, below the batch's.
static const char *below(const struct slurm_batch *batch, const struct slurm_run *run) {
  return run->directory + strlen(batch->directory) + 1;
}

static bool fill(struct slurm_planned_job *job, const struct slurm_batch *batch) {
  const struct slurm_run *run = &batch->runs[job->first];
  struct text name = {0}, path = {0}, text = {0}, array = {0};
  bool all = batch->submission == SLURM_ONE_JOB, tasks = batch->submission == SLURM_ARRAY && job->runs > 1;
  text_add(&name, "%s%s%s", batch->name, all ? "" : ".", all ? "" : tasks ? run->test : run->id);
  if (all) {
    text_add(&path, SLURM_FILE_SCRIPT);
    slurm_script_write_sequence(&text, batch, job->first, job->runs);
  } else if (tasks) {
    text_add(&path, "%s/" SLURM_FILE_SCRIPT, run->test);
    text_add(&array, "0-%zu", job->runs - 1);
    slurm_script_write_array(&text, batch, job->first, job->runs);
  } else {
    text_add(&path, "%s/" SLURM_FILE_SCRIPT, below(batch, run));
    slurm_script_write(&text, batch, run);
  }
  bool failed = name.failed || path.failed || text.failed || array.failed;
  failed = !print(&job->name, &name) || failed;
  failed = !print(&job->script, &path) || failed;
  failed = !print(&job->text, &text) || failed;
  return !(tasks && !print(&job->array, &array)) && !failed;
}

// Finds all earlier jobs of the tests that the job's test waits for.
static bool find_needs(struct slurm_planned_jobs *jobs, size_t index, const struct slurm_batch *batch) {
  struct slurm_planned_job *job = &jobs->list[index];
  const struct slurm_run *run = &batch->runs[job->first];
  for (size_t d = 0; batch->submission != SLURM_ONE_JOB && d < run->num_dependencies; d++)
    for (size_t other = 0; other < index; other++) {
      const struct slurm_dependency *wanted = &run->dependencies[d];
      if (strcmp(batch->runs[jobs->list[other].first].test, wanted->test) != 0)
        continue;
      struct slurm_need *needs = realloc(job->needs, (job->num_needs + 1) * sizeof *needs);
      if (!needs)
        return false;
      job->needs = needs;
      needs[job->num_needs++] = (struct slurm_need){wanted->type, wanted->only_if_passed, other};
    }
  return true;
}

// How many runs from `first` on are one job.
static size_t count_runs(const struct slurm_batch *batch, size_t first) {
  size_t count = 1;
  if (batch->submission == SLURM_ONE_JOB)
    return batch->num_runs;
  while (batch->submission == SLURM_ARRAY && first + count < batch->num_runs &&
         strcmp(batch->runs[first + count].test, batch->runs[first].test) == 0)
    count++;
  return count;
}

// One job can only start one run after the other.
static int check(const struct slurm_batch *batch) {
  for (size_t i = 0; batch->submission == SLURM_ONE_JOB && i < batch->num_runs; i++)
    for (size_t d = 0; d < batch->runs[i].num_dependencies; d++)
      if (batch->runs[i].dependencies[d].type != SLURM_START_POST_COMP)
        return fail(WEFT_ERR_UNSUPPORTED,
                    "test %s runs at the same time as %s, but --single-sbatch runs tests one after the other: omit it",
                    batch->runs[i].test, batch->runs[i].dependencies[d].test);
  return 0;
}

int slurm_planned_jobs_make(struct slurm_planned_jobs *jobs, const struct slurm_batch *batch) {
  int err = check(batch);
  for (size_t i = 0; !err && i < batch->num_runs;) {
    size_t count = count_runs(batch, i);
    struct slurm_planned_job *job = add(jobs, i, count);
    if (!job || !fill(job, batch) || !find_needs(jobs, jobs->count - 1, batch))
      err = fail(WEFT_ERR_NOMEM, "no memory for the scripts of %s", batch->name);
    i += count;
  }
  if (err)
    slurm_planned_jobs_free(jobs);
  return err;
}

void slurm_planned_jobs_free(struct slurm_planned_jobs *jobs) {
  for (size_t i = 0; i < jobs->count; i++) {
    free(jobs->list[i].name);
    free(jobs->list[i].script);
    free(jobs->list[i].text);
    free(jobs->list[i].array);
    free(jobs->list[i].needs);
  }
  free(jobs->list);
  *jobs = (struct slurm_planned_jobs){0};
}
