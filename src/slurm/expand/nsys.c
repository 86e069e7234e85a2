// Nsight Systems: a test's table nsys becomes the command in front of the program, as its keys say.
#include <string.h>

#include "slurm/expand/maker.h"

// Every node writes its own report; with one path for all of them only the last one remains.
static void check_output(const struct slurm_maker *maker, const struct slurm_run *run,
                         const struct toml_value *output) {
  if (toml_string(output) && !strchr(output->text, '%') && run->resources.num_nodes > 1)
    slurm_warn(maker->faults, output->at,
               "output is \"%s\": %u nodes write to one file; want %%q{SLURMD_NODENAME} in it, or no output",
               output->text, run->resources.num_nodes);
}

void slurm_make_nsys(const struct slurm_maker *maker, struct slurm_run *run) {
  // The names of nsys's options; the table's keys have '_' instead of '-'.
  static const struct {
    const char *key, *option;
  } options[] = {{"output", "output"},
                 {"sample", "sample"},
                 {"trace", "trace"},
                 {"force_overwrite", "force-overwrite"},
                 {"capture_range", "capture-range"},
                 {"capture_range_end", "capture-range-end"},
                 {"cuda_graph_trace", "cuda-graph-trace"},
                 {"gpu_metrics_devices", "gpu-metrics-devices"}};
  const struct toml_value *nsys = slurm_maker_get(maker, "nsys"), *enable = toml_get(nsys, "enable");
  if (!nsys || nsys->type != TOML_TABLE || (enable && enable->type == TOML_BOOLEAN && !enable->boolean))
    return;
  const char *binary = toml_string(toml_get(nsys, "nsys_binary")), *task = toml_string(toml_get(nsys, "task"));
  slurm_words_add(maker->memory, &run->profiler.command, binary ? binary : "nsys");
  slurm_words_add(maker->memory, &run->profiler.command, task ? task : "profile");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const struct toml_value *value = toml_get(nsys, options[i].key);
    const char *text = value && value->type == TOML_BOOLEAN ? value->boolean ? "true" : "false" : toml_string(value);
    if (text)
      slurm_words_add(maker->memory, &run->profiler.command,
                      slurm_memory_print(maker->memory, "--%s=%s", options[i].option, text));
  }
  run->profiler.has_output = toml_string(toml_get(nsys, "output"));
  check_output(maker, run, toml_get(nsys, "output"));
  const struct toml_value *more = toml_get(nsys, "extra_args");
  for (size_t i = 0; more && more->type == TOML_ARRAY && i < more->count; i++)
    if (toml_string(&more->children[i]))
      slurm_words_add(maker->memory, &run->profiler.command, more->children[i].text);
}
