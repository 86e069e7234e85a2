// Scripts of several runs: each of them starts the scripts of its runs.
#include <inttypes.h>
#include <string.h>

#include "slurm/script/parts.h"
#include "slurm/script/quote.h"

static const struct slurm_run *largest(const struct slurm_batch *batch, size_t first, size_t count) {
  const struct slurm_run *found = &batch->runs[first];
  for (size_t i = first; i < first + count; i++)
    if (batch->runs[i].resources.num_nodes > found->resources.num_nodes)
      found = &batch->runs[i];
  return found;
}

static uint32_t most_tasks(const struct slurm_batch *batch, size_t first, size_t count) {
  uint32_t most = 1;
  for (size_t i = first; i < first + count; i++)
    if (batch->runs[i].processes_per_node > most)
      most = batch->runs[i].processes_per_node;
  return most;
}

static void write_scripts(struct text *text, const struct slurm_batch *batch, size_t first, size_t count) {
  text_add(text, "\nset -u\nscripts=(\n");
  for (size_t i = first; i < first + count; i++) {
    struct text path = {0};
    text_add(&path, "%s/" SLURM_FILE_SCRIPT, batch->runs[i].directory);
    text_add(text, "  ");
    slurm_quote_word(text, path.data ? path.data : "");
    text_add(text, "\n");
    text_free(&path);
  }
  text_add(text, ")\n");
}

void slurm_script_write_array(struct text *text, const struct slurm_batch *batch, size_t first, size_t count) {
  const struct slurm_run *run = &batch->runs[first];
  struct text name = {0}, log = {0}, array = {0};
  text_add(text, "#!/bin/bash\n# The %zu runs of %s, each a task of this array.\n#\n", count, run->test);
  text_add(&name, "%s.%s", batch->name, run->test);
  slurm_quote_pattern(&log, batch->directory);
  text_add(&log, "/%s/job%%a.log", run->test);
  text_add(&array, "0-%zu", count - 1);
  if (name.data && log.data && array.data)
    slurm_part_header(text, &(struct slurm_header){.name = name.data,
                                                   .log = log.data,
                                                   .run = largest(batch, first, count),
                                                   .num_nodes = largest(batch, first, count)->resources.num_nodes,
                                                   .tasks_per_node = most_tasks(batch, first, count),
                                                   .time_limit = run->resources.time_limit,
                                                   .warn_s = run->resources.warn_s,
                                                   .array = array.data});
  write_scripts(text, batch, first, count);
  text_add(text, "exec bash \"${scripts[SLURM_ARRAY_TASK_ID]}\"\n");
  text->failed = text->failed || name.failed || log.failed || array.failed;
  text_free(&name);
  text_free(&log);
  text_free(&array);
}

// The sum of all time limits in hours, minutes and seconds, if each run has one.
static bool add_limits(struct text *limit, const struct slurm_batch *batch, size_t first, size_t count) {
  uint64_t sum = 0;
  for (size_t i = first; i < first + count; i++) {
    if (!batch->runs[i].resources.time_limit_s)
      return false;
    sum += batch->runs[i].resources.time_limit_s;
  }
  text_add(limit, "%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, sum / 3600, sum / 60 % 60, sum % 60);
  return !limit->failed;
}

static bool waits_for(const struct slurm_run *run, const struct slurm_run *other) {
  for (size_t i = 0; i < run->num_dependencies; i++)
    if (run->dependencies[i].only_if_passed && strcmp(run->dependencies[i].test, other->test) == 0)
      return true;
  return false;
}

// Writes for each script the numbers of the scripts that have to have passed. False, and nothing is written: there are
// none.
static bool write_needs(struct text *text, const struct slurm_batch *batch, size_t first, size_t count) {
  struct text all = {0};
  bool any = false;
  for (size_t i = first; i < first + count; i++) {
    struct text needs = {0};
    for (size_t j = first; j < i; j++)
      if (waits_for(&batch->runs[i], &batch->runs[j]))
        text_add(&needs, "%s%zu", needs.size ? " " : "", j - first);
    any = any || needs.size;
    text_add(&all, "%s", i > first ? " " : "");
    slurm_quote_word(&all, needs.data ? needs.data : "");
    all.failed = all.failed || needs.failed;
    text_free(&needs);
  }
  if (any)
    text_add(text,
             "# The numbers of those that each waits for: without their having passed it does not begin.\n"
             "needs=(%s)\n"
             "passed() {\n"
             "  grep -qs '\"exit_status\": 0,' \"${1%%/*}/" SLURM_FILE_STATUS "\"\n"
             "}\n",
             all.data ? all.data : "");
  text->failed = text->failed || all.failed;
  text_free(&all);
  return any;
}

static const char check_needs[] = "  for other in ${needs[number]}; do\n"
                                  "    passed \"${scripts[other]}\" && continue\n"
                                  "    echo \"$script: does not begin, since ${scripts[other]} has not passed\"\n"
                                  "    [ \"$status\" = 0 ] && status=1\n"
                                  "    continue 2\n"
                                  "  done\n";

void slurm_script_write_sequence(struct text *text, const struct slurm_batch *batch, size_t first, size_t count) {
  const struct slurm_run *run = largest(batch, first, count);
  struct text log = {0}, limit = {0};
  bool limited = add_limits(&limit, batch, first, count);
  text_add(text, "#!/bin/bash\n# The %zu run%s of %s in one job, one after the other.\n#\n", count, text_s(count),
           batch->name);
  slurm_quote_pattern(&log, batch->directory);
  text_add(&log, "/job.log");
  if (log.data)
    slurm_part_header(text, &(struct slurm_header){.name = batch->name,
                                                   .log = log.data,
                                                   .run = run,
                                                   .num_nodes = run->resources.num_nodes,
                                                   .tasks_per_node = most_tasks(batch, first, count),
                                                   .time_limit = limited ? limit.data : NULL,
                                                   .warn_s = run->resources.warn_s});
  write_scripts(text, batch, first, count);
  bool needs = write_needs(text, batch, first, count);
  text_add(text, SLURM_PART_PIPE);
  text_add(text,
           "\n# A signal goes on to the run that is under way, which is then the last one.\n"
           "current=\n"
           "signalled=0\n"
           "signal=\n"
           "# shellcheck disable=SC2317\n"
           "forward() {\n"
           "  signalled=1\n"
           "  signal=$1\n"
           "  kill -s \"$1\" \"$current\" 2> /dev/null\n"
           "}\n"
           "trap 'forward USR1' USR1\n"
           "trap 'forward TERM' TERM\n"
           "status=0\n"
           "%s"
           "for script in \"${scripts[@]}\"; do\n"
           "%s"
           "  # A job that is started again leaves out what has passed.\n"
           "  grep -qs '\"exit_status\": 0,' \"${script%%/*}/" SLURM_FILE_STATUS "\" && continue\n"
           "  [ -n \"$signal\" ] && break\n"
           "%s"
           "  " SLURM_PART_SAYS "bash \"$script\"; } &\n"
           "  " SLURM_PART_WAIT "  current=$!\n"
           "  [ -z \"$signal\" ] || kill -s \"$signal\" \"$current\" 2> /dev/null\n"
           "  while :; do\n"
           "    signalled=0\n"
           "    wait \"$current\"\n"
           "    result=$?\n"
           "    [ \"$signalled\" = 0 ] && break\n"
           "  done\n"
           "  echo \"$script: exit status $result\"\n"
           "  [ \"$status\" = 0 ] && status=$result\n"
           "done\n"
           "exit \"$status\"\n",
           needs ? "number=-1\n" : "", needs ? "  number=$((number + 1))\n" : "", needs ? check_needs : "");
  text->failed = text->failed || log.failed || limit.failed;
  text_free(&log);
  text_free(&limit);
}
