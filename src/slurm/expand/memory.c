// Chooses where the operations of a plan run. A test of CloudAI is one for GPUs and names no memory, since its own
// program has no other; `weft elastic` runs in host memory unless an option says otherwise.
#include <string.h>

#include "slurm/expand/maker.h"

static const char *const how[] = {"cuda", "with a GPU for each rank", "auto",
                                  "on GPUs if each rank of a node can have its own, else in host memory", NULL};

// The value of --memory among the words behind the options; NULL: they do not have it. The last one counts.
static const char *find_in_words(const struct slurm_words *words) {
  static const char option[] = "--memory";
  const char *found = NULL;
  for (size_t i = 0; i < words->count; i++) {
    const char *word = words->list[i];
    if (strncmp(word, option, sizeof option - 1) != 0)
      continue;
    if (word[sizeof option - 1] == '=')
      found = word + sizeof option;
    else if (!word[sizeof option - 1] && i + 1 < words->count)
      found = words->list[i + 1];
  }
  return found;
}

static const char *find_setting(const struct slurm_settings *settings, const char *name) {
  for (size_t i = 0; i < settings->count; i++)
    if (strcmp(settings->list[i].name, name) == 0)
      return settings->list[i].value;
  return NULL;
}

static void describe(const struct slurm_maker *maker, struct slurm_run *run, const char *memory, const char *why) {
  const char *meaning = NULL;
  for (size_t i = 0; how[i]; i += 2)
    if (strcmp(how[i], memory) == 0)
      meaning = how[i + 1];
  run->memory =
      slurm_memory_print(maker->memory, "%s, %s%s%s", memory, meaning ? meaning : "", meaning ? "; " : "", why);
}

static bool shares_gpus(const struct slurm_run *run) {
  for (size_t i = 0; i < run->args.count; i++)
    if (strcmp(run->args.list[i].name, "share-gpus") == 0)
      return true;
  for (size_t i = 0; i < run->extra_args.count; i++)
    if (strcmp(run->extra_args.list[i], "--share-gpus") == 0)
      return true;
  return false;
}

// Adds the option. If the job asks for GPUs and they suffice, the run must not take host memory without a word when a
// node's GPUs cannot be used.
static void choose(const struct slurm_maker *maker, struct slurm_run *run) {
  const uint32_t gpus = run->resources.gpus_per_node;
  bool suffice = gpus && (gpus >= run->processes_per_node || shares_gpus(run));
  const char *memory = suffice ? "cuda" : "auto";
  slurm_settings_add(maker->memory, &run->args, "memory", memory);
  slurm_settings_sort(&run->args);
  describe(
      maker, run, memory,
      suffice ? slurm_memory_print(maker->memory, "the job asks for %u GPU%s of each node", gpus, gpus == 1 ? "" : "s")
      : gpus  ? slurm_memory_print(maker->memory, "a node has %u process slots, but the job asks for %u of its GPUs",
                                   run->processes_per_node, gpus)
              : "the job asks for no GPUs");
}

void slurm_make_memory(const struct slurm_maker *maker, struct slurm_run *run) {
  if (run->program != SLURM_ELASTIC)
    return;
  const char *words = find_in_words(&run->extra_args), *option = find_setting(&run->args, "memory");
  const char *variable = find_setting(&run->environment, "WEFT_MEMORY");
  if (words)
    describe(maker, run, words, "an option says so");
  else if (option)
    describe(maker, run, option, "the test says so");
  else if (variable || maker->request->memory)
    describe(maker, run, variable ? variable : maker->request->memory, "the variable WEFT_MEMORY says so");
  else
    choose(maker, run);
}
