// run.toml: the resolved run, as a record for people. If a run is made again in an existing directory, it is the same
// run if its run.toml is equal. So run.toml has to contain everything that a script depends on.
#include <inttypes.h>

#include "slurm/script/quote.h"
#include "slurm/script/script.h"

static void string(struct text *text, const char *key, const char *value) {
  if (!value)
    return;
  text_add(text, "%s = ", key);
  slurm_quote_toml(text, value);
  text_add(text, "\n");
}

static void words(struct text *text, const char *key, const struct slurm_words *list) {
  if (list->count == 0)
    return;
  text_add(text, "%s = [", key);
  for (size_t i = 0; i < list->count; i++) {
    text_add(text, "%s", i ? ", " : "");
    slurm_quote_toml(text, list->list[i]);
  }
  text_add(text, "]\n");
}

static void settings(struct text *text, const char *table, const struct slurm_settings *list) {
  if (list->count == 0)
    return;
  text_add(text, "\n[%s]\n", table);
  for (size_t i = 0; i < list->count; i++) {
    slurm_quote_toml(text, list->list[i].name);
    text_add(text, " = ");
    if (list->list[i].value)
      slurm_quote_toml(text, list->list[i].value);
    else
      text_add(text, "true");
    text_add(text, "\n");
  }
}

static void resources(struct text *text, const struct slurm_run *run) {
  const struct slurm_resources *of = &run->resources;
  text_add(text, "\n[resources]\nnum_nodes = %u\nprocesses_per_node = [", of->num_nodes);
  for (uint32_t i = 0; i < of->num_nodes; i++)
    text_add(text, "%s%u", i ? ", " : "", run->node_processes[i]);
  text_add(text, "]\n");
  string(text, "nodes", of->nodes);
  string(text, "exclude_nodes", of->exclude);
  string(text, "partition", of->partition);
  string(text, "account", of->account);
  string(text, "qos", of->qos);
  string(text, "reservation", of->reservation);
  string(text, "time_limit", of->time_limit);
  text_add(text, "warn_seconds = %u\n", of->warn_s);
  text_add(text, "gpus_per_node = %u\nrequeue = %s\nexclusive = %s\n", of->gpus_per_node,
           of->requeue ? "true" : "false", of->exclusive ? "true" : "false");
  string(text, "mpi", of->mpi);
  words(text, "extra_sbatch_args", &of->extra_sbatch_args);
  words(text, "extra_srun_args", &of->extra_srun_args);
}

static void container(struct text *text, const struct slurm_image *image) {
  if (image->kind == SLURM_NO_CONTAINER)
    return;
  text_add(text, "\n[container]\nruntime = \"%s\"\n", image->kind == SLURM_PYXIS ? "pyxis" : "apptainer");
  string(text, "image", image->image);
  words(text, "mounts", &image->mounts);
}

static void dependencies(struct text *text, const struct slurm_run *run) {
  static const char *const types[] = {
      [SLURM_START_POST_COMP] = "start_post_comp",
      [SLURM_END_POST_COMP] = "end_post_comp",
      [SLURM_START_POST_INIT] = "start_post_init",
  };
  for (size_t i = 0; i < run->num_dependencies; i++) {
    text_add(text, "\n[[dependencies]]\ntype = \"%s\"\n", types[run->dependencies[i].type]);
    string(text, "id", run->dependencies[i].test);
  }
}

void slurm_script_write_toml(struct text *text, const struct slurm_batch *batch, const struct slurm_run *run) {
  static const char *const programs[] = {
      [SLURM_ELASTIC] = "elastic", [SLURM_TRANSFER] = "transfer", [SLURM_AS_WRITTEN] = "as_written"};
  text_add(text, "# What ran, after files, options and the grid: 'weft slurm' writes this, and only compares it.\n");
  string(text, "scenario", batch->name);
  string(text, "id", run->id);
  string(text, "test", run->test);
  string(text, "test_name", run->test_name);
  string(text, "description", run->description);
  text_add(text, "step = %u\nnum_steps = %u\niteration = %u\nnum_iterations = %u\n", run->step, run->num_steps,
           run->iteration, run->num_iterations);
  text_add(text, "program = \"%s\"\n", programs[run->program]);
  words(text, "command", &run->command);
  words(text, "extra_args", &run->extra_args);
  words(text, "profiler", &run->profiler.command);
  string(text, "plan", run->plan);
  string(text, "plan_source", run->plan_source);
  if (run->followers == SLURM_FOLLOWERS_LATE)
    string(text, "followers", "late");
  string(text, "store", run->store);
  if (run->store_port)
    text_add(text, "store_port = %u\n", run->store_port);
  text_add(text, "startup_timeout_seconds = %u\n", run->startup_timeout_s);
  string(text, "pre_test", run->pre_test);
  string(text, "post_test", run->post_test);
  words(text, "metrics", &run->metrics);
  settings(text, "options", &run->args);
  settings(text, "action", &run->action);
  resources(text, run);
  container(text, &run->container);
  settings(text, "environment", &run->environment);
  dependencies(text, run);
}
