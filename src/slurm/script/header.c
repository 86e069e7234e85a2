// The #SBATCH lines, and the options of srun and of containers.
#include <string.h>

#include "slurm/script/parts.h"
#include "slurm/script/quote.h"

enum { MOST_COLUMNS = 100 };

static void directive(struct text *text, const char *option, const char *value) {
  if (!value)
    return;
  text_add(text, "#SBATCH --%s=", option);
  slurm_quote_word(text, value);
  text_add(text, "\n");
}

// Writes what ends the job, and what happens then.
static void write_ends(struct text *text, const struct slurm_header *header) {
  const struct slurm_resources *resources = &header->run->resources;
  directive(text, "time", header->time_limit);
  text_add(text,
           "# This script gets USR1 so many seconds before the time limit.\n"
           "#SBATCH --signal=B:USR1@%u\n",
           header->warn_s);
  if (resources->requeue) // with --no-kill a job continues when nodes fail, and Slurm does not start it again
    text_add(text, "# A node that fails ends the job, and Slurm starts it again; so does preemption.\n"
                   "#SBATCH --requeue\n");
  else
    text_add(text, "# A node that fails does not end the job: its ranks are lost, and the others say so.\n"
                   "#SBATCH --no-kill\n"
                   "#SBATCH --no-requeue\n");
}

void slurm_part_header(struct text *text, const struct slurm_header *header) {
  const struct slurm_resources *resources = &header->run->resources;
  directive(text, "job-name", header->name);
  directive(text, "output", header->log);
  text_add(text, "#SBATCH --open-mode=append\n");
  if (header->array)
    directive(text, "array", header->array);
  directive(text, "partition", resources->partition);
  directive(text, "account", resources->account);
  directive(text, "qos", resources->qos);
  directive(text, "reservation", resources->reservation);
  text_add(text, "#SBATCH --nodes=%u\n", header->num_nodes);
  directive(text, "nodelist", resources->nodes);
  directive(text, "exclude", resources->exclude);
  text_add(text, "#SBATCH --ntasks-per-node=%u\n", header->tasks_per_node);
  if (resources->exclusive)
    text_add(text, "#SBATCH --exclusive\n");
  if (resources->gpus_per_node)
    text_add(text, "#SBATCH --gpus-per-node=%u\n", resources->gpus_per_node);
  write_ends(text, header);
  for (size_t i = 0; i < resources->extra_sbatch_args.count; i++) {
    text_add(text, "#SBATCH ");
    slurm_quote_word(text, resources->extra_sbatch_args.list[i]);
    text_add(text, "\n");
  }
}

static void add_mounts(struct text *text, const struct slurm_run *run) {
  struct text mounts = {0};
  text_add(&mounts, "%s:%s", run->directory, run->directory);
  for (size_t i = 0; i < run->container.mounts.count; i++)
    text_add(&mounts, ",%s", run->container.mounts.list[i]);
  text->failed = text->failed || mounts.failed;
  if (mounts.data)
    slurm_quote_word(text, mounts.data);
  text_free(&mounts);
}

void slurm_part_srun_options(struct text *text, const struct slurm_run *run) {
  const char *mpi = run->program == SLURM_AS_WRITTEN ? run->resources.mpi : "none"; // agents do not need it
  if (mpi) {
    text_add(text, " --mpi=");
    slurm_quote_word(text, mpi);
  }
  for (size_t i = 0; i < run->resources.extra_srun_args.count; i++) {
    text_add(text, " ");
    slurm_quote_word(text, run->resources.extra_srun_args.list[i]);
  }
  if (run->container.kind != SLURM_PYXIS)
    return;
  text_add(text, " \\\n    --container-image=");
  slurm_quote_word(text, run->container.image);
  text_add(text, " --container-mounts=");
  add_mounts(text, run);
}

static void add_profiler(struct text *text, const struct slurm_run *run) {
  const struct slurm_profiler *profiler = &run->profiler;
  for (size_t i = 0; i < profiler->command.count; i++) {
    text_add(text, " ");
    slurm_quote_word(text, profiler->command.list[i]);
  }
  if (profiler->command.count && !profiler->has_output) // nsys expands %q{...} to the node's name
    text_add(text, " --output \"$directory/${attempt##*/}-nsys-%%q{SLURMD_NODENAME}\"");
  if (profiler->command.count)
    text_add(text, " \\\n   ");
}

void slurm_part_program(struct text *text, const struct slurm_run *run) {
  if (run->container.kind == SLURM_APPTAINER) {
    text_add(text, " apptainer exec%s --bind ", run->resources.gpus_per_node ? " --nv" : "");
    add_mounts(text, run);
    text_add(text, " ");
    slurm_quote_word(text, run->container.image);
  }
  add_profiler(text, run);
  for (size_t i = 0; i < run->command.count; i++) {
    text_add(text, " ");
    slurm_quote_word(text, run->command.list[i]);
  }
}

// Adds words; begins a new line first if this one would become too long.
static void add_wrapped(struct text *text, size_t *column, struct text *words) {
  if (*column == 0 || *column + words->size > MOST_COLUMNS) {
    text_add(text, " \\\n   ");
    *column = 3;
  }
  text_add(text, " %s", words->data ? words->data : "");
  *column += words->size + 1;
  text->failed = text->failed || words->failed;
  text_free(words);
}

void slurm_part_options(struct text *text, const struct slurm_run *run) {
  size_t column = 0;
  for (size_t i = 0; i < run->args.count; i++) {
    struct text words = {0};
    text_add(&words, "--");
    slurm_quote_word(&words, run->args.list[i].name); // a key of a file, so it may be any text
    if (run->args.list[i].value) {
      text_add(&words, " ");
      slurm_quote_word(&words, run->args.list[i].value);
    }
    add_wrapped(text, &column, &words);
  }
  for (size_t i = 0; i < run->extra_args.count; i++) {
    struct text words = {0};
    slurm_quote_word(&words, run->extra_args.list[i]);
    add_wrapped(text, &column, &words);
  }
}
