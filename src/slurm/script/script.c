// The script of one run, and its environment.
#include "slurm/script/script.h"

#include <stdlib.h>
#include <string.h>

#include "slurm/script/parts.h"
#include "slurm/script/quote.h"

static const char *const programs[] = {
    [SLURM_ELASTIC] = "weft elastic",
    [SLURM_TRANSFER] = "weft bench transfer",
    [SLURM_AS_WRITTEN] = "the program that the test names",
};

static void write_head(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run) {
  struct text line = {0};
  const uint32_t nodes = run->resources.num_nodes;
  text_add(&line, "Run %s of %s: %s on %u node%s, up to %u process%s each.", run->id, batch->name,
           programs[run->program], nodes, text_s(nodes), run->processes_per_node,
           run->processes_per_node == 1 ? "" : "es");
  text_add(text, "#!/bin/bash\n");
  slurm_quote_comment(text, line.data ? line.data : "");
  if (run->description)
    slurm_quote_comment(text, run->description);
  text_free(&line);
  if (run->plan) {
    text_add(&line, "Plan: %u phase%s, up to %u rank%s at once, of %s.", run->plan_phases, text_s(run->plan_phases),
             run->plan_ranks, text_s(run->plan_ranks), run->plan_source);
    slurm_quote_comment(text, line.data ? line.data : "");
    text_free(&line);
  }
  if (run->memory) {
    text_add(&line, "Memory: %s.", run->memory);
    slurm_quote_comment(text, line.data ? line.data : "");
    text_free(&line);
  }
  for (size_t i = 0; i < run->action.count; i++) {
    text_add(&line, "Step %u of %u of the grid: %s = %s", run->step, run->num_steps, run->action.list[i].name,
             run->action.list[i].value);
    slurm_quote_comment(text, line.data ? line.data : "");
    text_free(&line);
  }
  text_add(text, "#\n");
}

static void write_directives(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run) {
  struct text name = {0}, log = {0};
  text_add(&name, "%s.%s", batch->name, run->id);
  slurm_quote_pattern(&log, run->directory);
  text_add(&log, "/job.log");
  if (name.data && log.data)
    slurm_part_header(text, &(struct slurm_header){.name = name.data,
                                                   .log = log.data,
                                                   .run = run,
                                                   .num_nodes = run->resources.num_nodes,
                                                   .tasks_per_node = run->processes_per_node,
                                                   .time_limit = run->resources.time_limit,
                                                   .warn_s = run->resources.warn_s});
  text->failed = text->failed || name.failed || log.failed;
  text_free(&name);
  text_free(&log);
}

static void write_start(struct text *text, const struct slurm_run *run) {
  text_add(text, "\nset -u\ndirectory=");
  slurm_quote_word(text, run->directory);
  text_add(text,
           "\n# Each time that Slurm starts the job, it has a folder of its own.\n"
           "attempt=$directory/job$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}\n"
           "# shellcheck source=/dev/null\n"
           ". \"$directory/" SLURM_FILE_ENV "\"\n"
           "mapfile -t nodes < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
           "nodes=(\"${nodes[@]:0:%u}\")\n",
           run->resources.num_nodes);
}

// A preempted job may have a grace time (GraceTime of its partition). Slurm signals the steps when it begins, and
// requeues the job when it ends, unless the job has ended before.
static const char wait_for_requeue[] =
    "  # A job that is preempted with a time of grace is started again if it still runs when that is over.\n"
    "  if [ \"$1\" != 0 ] && scontrol show job \"$SLURM_JOB_ID\" 2> /dev/null | grep -q 'PreemptTime=[0-9]'; then\n"
    "    sleep 1d\n"
    "  fi\n";

// Each node has a step of its own: a step that fails does not end the others, and has its own exit status.
static void write_functions(struct text *text, const struct slurm_run *run) {
  text_add(text, SLURM_PART_PIPE);
  text_add(text, "\n# Each node has a step of its own: one that fails takes no other with it.\n"
                 "steps=()\n"
                 "signal=\n"
                 "step() {\n"
                 "  local node=$1\n"
                 "  shift\n"
                 "  " SLURM_PART_SAYS
                 "srun --nodes=1 --ntasks=1 --nodelist=\"$node\" --overlap --cpu-bind=none --input=none \\\n"
                 "    --kill-on-bad-exit=0 --export=ALL");
  slurm_part_srun_options(text, run);
  text_add(text, " \\\n"
                 "    \"$@\" >> \"$directory/node-$node.log\" 2>&1; } &\n"
                 "  " SLURM_PART_WAIT "  steps+=($!)\n"
                 "  [ -z \"$signal\" ] || kill -s \"$signal\" \"$!\"\n"
                 "}\n");
  text_add(text, "\n# The time limit is near (USR1), or the job is to end (TERM): each step gets the signal and ends.\n"
                 "signalled=0\n"
                 "# shellcheck disable=SC2317\n"
                 "forward() {\n"
                 "  signalled=1\n"
                 "  signal=$1\n"
                 "  kill -s \"$1\" \"${steps[@]}\" 2> /dev/null\n"
                 "}\n"
                 "trap 'forward USR1' USR1\n"
                 "trap 'forward TERM' TERM\n");
  text_add(text,
           "\n# The exit status of a step, through signals that interrupt the wait. A signal just behind a wait ends\n"
           "# the next one too, whose trap has run by then: above 128 a status counts that a second wait repeats.\n"
           "await() {\n"
           "  local status\n"
           "  while :; do\n"
           "    signalled=0\n"
           "    wait \"$1\"\n"
           "    status=$?\n"
           "    [ \"$status\" -gt 128 ] || return \"$status\"\n"
           "    wait \"$1\"\n"
           "    [ \"$?$signalled\" = \"${status}0\" ] && return \"$status\"\n"
           "  done\n"
           "}\n"
           "\n# Says how the run ended, in " SLURM_FILE_STATUS " and to Slurm.\n"
           "finish() {\n"
           "  printf '{\"exit_status\": %%d, \"job\": %%d, \"attempt\": \"%%s\"}\\n' \"$1\" \"$SLURM_JOB_ID\" "
           "\"${attempt##*/}\" \\\n"
           "    > \"$directory/" SLURM_FILE_STATUS_NEW "\" &&\n"
           "    mv \"$directory/" SLURM_FILE_STATUS_NEW "\" \"$directory/" SLURM_FILE_STATUS "\" ||\n"
           "    echo \"$directory/" SLURM_FILE_STATUS " stays as it was: that this run ended with $1 could not be "
           "written\" >&2\n"
           "  [ -e \"$attempt/" SLURM_FILE_RESULTS "\" ] && ln -sf \"${attempt##*/}/" SLURM_FILE_RESULTS
           "\" \"$directory/" SLURM_FILE_RESULTS "\"\n"
           "%s"
           "  exit \"$1\"\n"
           "}\n",
           run->resources.requeue ? wait_for_requeue : "");
}

// A signal goes to pre_test as it goes to a step, and the run does not begin after that: its time would end at once.
static const char end_pre_test[] = "; } &\n" SLURM_PART_WAIT "steps=($!)\n"
                                   "[ -z \"$signal\" ] || kill -s \"$signal\" \"$!\"\n"
                                   "await \"$!\"\n"
                                   "status=$?\n"
                                   "[ -n \"$signal\" ] && finish $((128 + $(kill -l \"$signal\")))\n"
                                   "[ \"$status\" = 0 ] || finish \"$status\"\n"
                                   "steps=()\n";

static void write_hook(struct text *text, const char *name, const char *begin, const char *command, const char *end) {
  if (!command)
    return;
  text_add(text, "\n# %s of the scenario, on the first node.\n%sbash -c ", name, begin);
  slurm_quote_word(text, command);
  text_add(text, " > \"$directory/%s.log\" 2>&1%s", name, end);
}

static void write_end(struct text *text, const struct slurm_run *run) {
  text_add(text,
           "\n# The first step's status is the run's; another step's counts where the first found nothing wrong.\n"
           "await \"${steps[0]}\"\n"
           "status=$?\n");
  if (run->program != SLURM_AS_WRITTEN && run->resources.num_nodes > 1)
    text_add(text, "# Without results it has not reported its end: the others would wait until their startup timeout.\n"
                   "if [ \"$status\" != 0 ] && [ ! -e \"$attempt/" SLURM_FILE_RESULTS "\" ]; then\n"
                   "  kill -s TERM \"${steps[@]:1}\" 2> /dev/null\n"
                   "fi\n");
  text_add(text, "for other in \"${steps[@]:1}\"; do\n"
                 "  await \"$other\" || { failed=$?; [ \"$status\" = 0 ] && status=$failed; }\n"
                 "done\n");
  if (run->program == SLURM_AS_WRITTEN)
    slurm_part_fatal(text);
}

void slurm_script_write(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run) {
  write_head(text, batch, run);
  write_directives(text, batch, run);
  write_start(text, run);
  write_functions(text, run);
  write_hook(text, "pre_test", SLURM_PART_SAYS, run->pre_test, end_pre_test);
  text_add(text, "\n");
  if (run->program == SLURM_ELASTIC)
    slurm_part_elastic(text, run);
  else if (run->program == SLURM_TRANSFER)
    slurm_part_transfer(text, run);
  else
    slurm_part_as_written(text, run);
  write_end(text, run);
  write_hook(text, "post_test", "", run->post_test, " || echo \"post_test failed\" >&2\n");
  text_add(text, "\nfinish \"$status\"\n");
}

void slurm_script_write_env(struct text *text, const struct slurm_run *run) {
  text_add(text, "# Variables of the system and the test, which script.sbatch reads.\n");
  for (size_t i = 0; i < run->environment.count; i++) {
    text_add(text, "export %s=", run->environment.list[i].name);
    slurm_quote_expanded(text, run->environment.list[i].value);
    text_add(text, "\n");
  }
}
