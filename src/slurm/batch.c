// Makes a batch: reads the files, expands the grids, and puts the runs in the order of their submission.
#include "slurm/batch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "slurm/expand/dependencies.h"
#include "slurm/expand/maker.h"
#include "slurm/schema/words.h"

// The batch is the first member, so its address is the address of the holder.
struct holder {
  struct slurm_batch batch;
  struct slurm_memory memory;
  struct slurm_files files;
};

// "plans/one.json": "one".
static const char *stem_of(struct slurm_memory *memory, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  const char *stem = slurm_memory_print(memory, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
  return slurm_id_check(stem) ? "elastic" : stem;
}

static void name_batch(struct holder *holder, const struct slurm_request *request, const struct slurm_tests *tests,
                       struct slurm_faults *faults) {
  const struct slurm_file *scenario = slurm_files_first(&holder->files, SLURM_KIND_SCENARIO);
  struct slurm_batch *batch = &holder->batch;
  const char *want = request->name ? slurm_id_check(request->name) : NULL;
  if (want)
    slurm_fault(faults, slurm_place("--name"), "\"%s\" is wrong: want %s", request->name, want);
  batch->name = request->name   ? request->name
                : scenario      ? toml_string(toml_get(scenario->root, "name"))
                : tests->count  ? tests->list[0].id
                : request->plan ? stem_of(&holder->memory, request->plan)
                                : "elastic";
  if (!batch->name)
    batch->name = "batch"; // the fault is reported already
}

// Checks the path of the log like other words of #SBATCH lines, since it becomes one.
static void check_place(const struct slurm_request *request, const struct toml_value *preset, const char *output,
                        const char *here, struct slurm_faults *faults) {
  struct toml_place at = request->output || !preset ? slurm_place("--output-dir") : preset->at;
  const char *want = output ? slurm_line_check(output) : NULL;
  if (want)
    slurm_fault(faults, at, "\"%s\" is wrong: want %s", output, want);
  else if (here && slurm_line_check(here))
    slurm_fault(faults, at, "a relative path leads to \"%s\", whose name has a line break: want another directory",
                here);
}

static void place_batch(struct holder *holder, const struct slurm_request *request, const struct toml_value *system,
                        struct slurm_faults *faults) {
  struct slurm_memory *memory = &holder->memory;
  const struct toml_value *preset = toml_get(system, "output_path");
  const char *output = request->output ? request->output : toml_string(preset);
  const char *path = request->directory
                         ? request->directory
                         : slurm_memory_print(memory, "%s/%s", output ? output : "weft-slurm", holder->batch.name);
  char *here = *path == '/' ? NULL : getcwd(NULL, 0);
  check_place(request, preset, output, here, faults);
  while (strncmp(path, "./", 2) == 0)
    path += 2;
  holder->batch.directory = here ? slurm_memory_print(memory, "%s/%s", here, path) : slurm_memory_keep(memory, path);
  free(here);
}

static void take_metrics(const struct slurm_maker *maker, struct slurm_run *run) {
  static const char *const names[] = {
      [SLURM_REWARD_INVERSE] = "inverse", [SLURM_REWARD_NEGATIVE] = "negative", [SLURM_REWARD_IDENTITY] = "identity"};
  const struct toml_value *metrics = slurm_maker_get(maker, "agent_metrics");
  const char *reward = toml_string(slurm_maker_get(maker, "agent_reward_function"));
  for (size_t i = 0; metrics && metrics->type == TOML_ARRAY && i < metrics->count; i++)
    slurm_words_add(maker->memory, &run->metrics, metrics->children[i].text);
  if (run->metrics.count == 0)
    slurm_words_add(maker->memory, &run->metrics, "default");
  for (unsigned i = SLURM_REWARD_INVERSE; reward && i <= SLURM_REWARD_IDENTITY; i++)
    if (strcmp(names[i], reward) == 0)
      run->reward = (enum slurm_reward)i;
}

// Sets what describes the test itself, besides what its program needs.
static void describe(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct slurm_test *test = maker->test;
  for (size_t i = 0; i < maker->grid.num_axes; i++) {
    const struct slurm_axis *axis = &maker->grid.axes[i];
    const struct toml_value *value = slurm_grid_at(&maker->grid, maker->step, axis->value);
    const char *text = value->type == TOML_ARRAY
                           ? slurm_memory_print(maker->memory, "#%zu", (size_t)(value - axis->value->children) + 1)
                           : value->text;
    slurm_settings_add(maker->memory, &run->action, axis->name, text);
  }
  run->test_name = test ? slurm_test_string(test, "name") : run->test;
  run->description = test ? slurm_test_string(test, "description") : NULL;
  run->pre_test = toml_string(slurm_maker_get(maker, "pre_test"));
  run->post_test = toml_string(slurm_maker_get(maker, "post_test"));
  if (test && !run->pre_test)
    run->pre_test = toml_string(toml_get(test->scenario, "pre_test"));
  if (test && !run->post_test)
    run->post_test = toml_string(toml_get(test->scenario, "post_test"));
  if (test)
    slurm_dependencies_read(test, run, maker->memory);
  take_metrics(maker, run);
}

static void identify(struct holder *holder, struct slurm_run *run) {
  struct slurm_memory *memory = &holder->memory;
  run->id = run->test;
  run->directory = slurm_memory_print(memory, "%s/%s", holder->batch.directory, run->test);
  if (run->num_steps > 1) {
    run->id = slurm_memory_print(memory, "%s.step%u", run->id, run->step);
    run->directory = slurm_memory_print(memory, "%s/step%u", run->directory, run->step);
  }
  if (run->num_iterations > 1) {
    run->id = slurm_memory_print(memory, "%s.iteration%u", run->id, run->iteration);
    run->directory = slurm_memory_print(memory, "%s/iteration%u", run->directory, run->iteration);
  }
}

static void make_run(struct holder *holder, const struct slurm_maker *maker, struct slurm_run *run) {
  const struct slurm_test *test = maker->test;
  run->test = test ? test->id : holder->batch.name;
  run->step = maker->step + 1;
  run->num_steps = maker->grid.num_steps;
  run->followers = maker->request->followers;
  identify(holder, run);
  slurm_make_resources(maker, run);
  slurm_make_processes(maker, run);
  slurm_make_container(maker, run);
  slurm_make_environment(maker, run);
  slurm_make_program(maker, run);
  slurm_make_nsys(maker, run);
  slurm_make_options(maker, run);
  slurm_make_memory(maker, run);
  if (!test || test->type == SLURM_TEST_NIXL_EP)
    slurm_make_plan(maker, run); // last, since it reports faults of what the plan has to fit
  describe(maker, run);
}

// Reports two tests whose runs would have the same directory, such as "a" in step 1 and "a.step1".
static void check_id(const struct holder *holder, const struct slurm_maker *maker, const struct slurm_run *run) {
  for (size_t i = 0; i < holder->batch.num_runs; i++)
    if (strcmp(holder->batch.runs[i].test, run->test) != 0 && strcmp(holder->batch.runs[i].id, run->id) == 0)
      slurm_fault(maker->faults, maker->test ? maker->test->at : slurm_place("--name"),
                  "its run %s has the same name as a run of another test: want another id", run->id);
}

static void add_runs(struct holder *holder, struct slurm_maker *maker) {
  const struct toml_value *value = slurm_maker_get(maker, "iterations");
  uint32_t iterations = maker->request->iterations ? maker->request->iterations
                        : value && value->type == TOML_INTEGER && value->integer > 0 && value->integer <= 10000
                            ? (uint32_t)value->integer
                            : 1;
  if (holder->batch.num_runs + (size_t)maker->grid.num_steps * iterations > SLURM_MOST_RUNS) {
    slurm_fault(maker->faults, maker->test ? maker->test->at : slurm_place("--iterations"),
                "the batch has more than %d runs: want smaller grids, or fewer iterations", SLURM_MOST_RUNS);
    return;
  }
  for (maker->step = 0; maker->step < maker->grid.num_steps; maker->step++)
    for (uint32_t i = 1; i <= iterations; i++) {
      struct slurm_run *list =
          slurm_memory_room(&holder->memory, holder->batch.runs, holder->batch.num_runs, sizeof *list);
      if (!list)
        return;
      holder->batch.runs = list;
      struct slurm_run *run = &list[holder->batch.num_runs++];
      *run = (struct slurm_run){.iteration = i, .num_iterations = iterations};
      make_run(holder, maker, run);
      check_id(holder, maker, run);
    }
  maker->step = 0;
}

static void expand(struct holder *holder, struct slurm_maker *maker, const struct slurm_tests *tests) {
  size_t *order = slurm_memory_take(&holder->memory, (tests->count + 1) * sizeof *order);
  if (!order)
    return;
  slurm_dependencies_order(tests, order, &holder->memory, maker->faults);
  for (size_t i = 0; i < tests->count; i++) {
    maker->test = &tests->list[order[i]];
    if (maker->test->type == SLURM_TEST_UNKNOWN)
      continue; // the fault is reported already
    slurm_grid_make(&maker->grid, &holder->memory, maker->test, maker->faults);
    add_runs(holder, maker);
  }
  if (tests->count || holder->files.count > (maker->system != NULL) || maker->faults->errors)
    return;
  maker->test = NULL; // there are options only
  maker->grid = (struct slurm_grid){.num_steps = 1};
  add_runs(holder, maker);
}

int slurm_batch_make(struct slurm_batch **batch, const struct slurm_request *request, struct slurm_faults *faults) {
  struct holder *holder = calloc(1, sizeof *holder);
  struct slurm_tests tests = {0};
  if (!holder)
    return fail(WEFT_ERR_NOMEM, "no memory for a batch");
  struct slurm_memory *memory = &holder->memory;
  int err = slurm_files_load(&holder->files, memory, request, faults);
  if (!err) {
    const struct slurm_file *system = slurm_files_first(&holder->files, SLURM_KIND_SYSTEM);
    struct slurm_maker maker = {request, memory, faults, system ? system->root : NULL, NULL, {0}, 0};
    slurm_tests_make(&tests, &holder->files, memory, faults);
    name_batch(holder, request, &tests, faults);
    place_batch(holder, request, maker.system, faults);
    holder->batch.submission = request->submission;
    expand(holder, &maker, &tests);
    if (holder->batch.num_runs == 0 && faults->errors == 0)
      slurm_fault(faults, slurm_place("weft slurm"), "there is nothing to run: want a scenario, a test, or --plan");
  }
  if (!err && memory->failed)
    err = fail(WEFT_ERR_NOMEM, "no memory for a batch");
  if (err)
    slurm_batch_free(&holder->batch);
  else
    *batch = &holder->batch;
  return err;
}

size_t slurm_batch_tests(const struct slurm_batch *batch) {
  size_t tests = 0;
  for (size_t i = 0; i < batch->num_runs; i++)
    tests += i == 0 || strcmp(batch->runs[i - 1].test, batch->runs[i].test) != 0;
  return tests;
}

void slurm_batch_free(struct slurm_batch *batch) {
  struct holder *holder = (struct holder *)batch;
  if (!holder)
    return;
  struct slurm_memory memory = holder->memory;
  slurm_files_free(&holder->files);
  free(holder);
  slurm_memory_free(&memory);
}
