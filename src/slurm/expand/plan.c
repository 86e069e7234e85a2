// Finds the plan: in the test, as a list or as JSON; in a file; or on the command line.
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "slurm/expand/launches.h"
#include "slurm/expand/maker.h"

// Writes a list of lists of numbers as JSON; the reader of plans reports anything that is not a number.
static void write_json(struct text *text, const struct toml_value *value) {
  if (value->type == TOML_ARRAY) {
    text_add(text, "[");
    for (size_t i = 0; i < value->count; i++) {
      text_add(text, "%s", i ? ", " : "");
      write_json(text, &value->children[i]);
    }
    text_add(text, "]");
  } else if (value->type == TOML_INTEGER || value->type == TOML_FLOAT || value->type == TOML_BOOLEAN) {
    text_add(text, "%s", value->text);
  } else {
    text_add(text, "\"%s\"", toml_type_name(value->type));
  }
}

// The node's slots are first needed in the first phase that has more ranks than the nodes before it have slots.
static void find_first_phases(const struct slurm_maker *maker, struct slurm_run *run, const struct plan *plan) {
  uint32_t before = 0, nodes = run->resources.num_nodes;
  run->node_first_phase = slurm_memory_take(maker->memory, nodes * sizeof *run->node_first_phase);
  for (uint32_t i = 0; run->node_first_phase && run->node_processes && i < nodes; i++) {
    uint32_t phase = 0;
    while (phase < plan->num_phases && plan->phases[phase].num_processes <= before)
      phase++;
    run->node_first_phase[i] = phase < plan->num_phases ? phase : UINT32_MAX;
    before += run->node_processes[i];
  }
}

static void keep(const struct slurm_maker *maker, struct slurm_run *run, const struct plan *plan) {
  json_t *json = plan_to_json(plan);
  char *text = json ? json_dumps(json, 0) : NULL;
  run->plan = slurm_memory_keep(maker->memory, text ? text : "");
  maker->memory->failed = maker->memory->failed || !text;
  run->plan_phases = plan->num_phases;
  run->plan_ranks = plan->num_processes;
  free(text);
  json_decref(json);
  find_first_phases(maker, run, plan);
}

// Whether an error of the value, or of one of its elements, is reported already.
static bool is_wrong(const struct slurm_maker *maker, const struct toml_value *value) {
  bool wrong = value && slurm_fault_is_at(maker->faults, value->at);
  for (size_t i = 0; value && value->type == TOML_ARRAY && i < value->count; i++)
    wrong = wrong || slurm_fault_is_at(maker->faults, value->children[i].at);
  return wrong;
}

static bool are_nodes_misspelt(const struct slurm_maker *maker) {
  const struct toml_value *entry = maker->test ? maker->test->entry : NULL;
  for (size_t i = 0; entry && i < entry->count; i++)
    if (slurm_schema_misspells(&entry->children[i], "num_nodes", maker->faults) ||
        slurm_schema_misspells(&entry->children[i], "nodes", maker->faults))
      return true;
  return false;
}

// Whether a fault of the numbers of nodes or processes is reported already, or the scenario, which may have them, could
// not be read. Then it is not known whether the plan fits.
static bool are_slots_unknown(const struct slurm_maker *maker) {
  const struct slurm_request *request = maker->request;
  const struct toml_value *processes = slurm_maker_arg(maker, "num_processes_per_node");
  bool nodes = is_wrong(maker, slurm_maker_get(maker, "num_nodes")) || is_wrong(maker, slurm_maker_get(maker, "nodes"));
  return (maker->test && !request->processes_per_node && (!processes || is_wrong(maker, processes))) ||
         (!request->nodes && (nodes || are_nodes_misspelt(maker))) ||
         (maker->faults->unread && !(maker->test && maker->test->scenario)) ||
         slurm_fault_is_at(maker->faults, slurm_place("--nodes")) ||
         slurm_fault_is_at(maker->faults, slurm_place("--nodelist"));
}

// Whether the list that is an axis of the grid may be meant as a number for each node, which older documents of CloudAI
// have.
static bool is_list_for_nodes(const struct slurm_maker *maker, const struct slurm_run *run) {
  const struct toml_value *list = maker->test ? slurm_test_arg(maker->test, "num_processes_per_node") : NULL;
  return list && !maker->request->processes_per_node && list->type == TOML_ARRAY &&
         list != slurm_maker_arg(maker, "num_processes_per_node") && list->count == run->resources.num_nodes;
}

static void check_slots(const struct slurm_maker *maker, const struct slurm_run *run, const struct plan *plan,
                        struct toml_place at) {
  uint32_t slots = 0;
  for (uint32_t i = 0; run->node_processes && i < run->resources.num_nodes; i++)
    slots += run->node_processes[i];
  const char *option = maker->test && !maker->request->processes_per_node
                           ? "num_processes_per_node, on all nodes together"
                           : "--processes-per-node, on all nodes together";
  if (plan_check_slots_of(plan, slots, option))
    slurm_fault(maker->faults, at, "the plan does not fit %u node%s with %u process slots in all: %s%s",
                run->resources.num_nodes, run->resources.num_nodes == 1 ? "" : "s", slots, weft_last_error(),
                is_list_for_nodes(maker, run) ? "; the list in num_processes_per_node is a grid, with a run for each "
                                                "number; for a number for each node want dse_excluded_args = "
                                                "[\"cmd_args.num_processes_per_node\"]"
                                              : "");
}

static void take(const struct slurm_maker *maker, struct slurm_run *run, int err, struct plan *plan,
                 struct toml_place at) {
  if (err) {
    slurm_fault(maker->faults, at, "%s", weft_last_error());
    return;
  }
  if (!are_slots_unknown(maker))
    check_slots(maker, run, plan, at);
  keep(maker, run, plan);
  if (run->program == SLURM_AS_WRITTEN && maker->faults->errors == 0)
    slurm_launches_by_phase(maker, run, plan, at);
  plan_free(plan);
}

static void load(const struct slurm_maker *maker, struct slurm_run *run, const char *path, struct toml_place at) {
  struct plan *plan = NULL;
  run->plan_source = path;
  int err = plan_load(&plan, path);
  if (err == WEFT_ERR_SYSTEM && at.line)
    err = fail_context(err, "weft cannot read a path within an image; give --plan FILE, or the plan itself");
  take(maker, run, err, plan, at);
}

// A path is relative to its file, or to where the command runs.
static const char *find_file(const struct slurm_maker *maker, const struct toml_value *value) {
  const char *beside = slurm_file_relative(maker->memory, value->at.path, value->text);
  return access(beside, F_OK) != 0 && access(value->text, F_OK) == 0 ? value->text : beside;
}

static bool is_json(const char *text) {
  return text[strspn(text, " \t\r\n")] == '[';
}

static void from_value(const struct slurm_maker *maker, struct slurm_run *run, const struct toml_value *value) {
  struct text text = {0};
  struct plan *plan = NULL;
  if (value->type == TOML_ARRAY)
    write_json(&text, value);
  else
    text_add(&text, "%s", value->text);
  run->plan_source = slurm_memory_print(maker->memory, "%s:%u", value->at.path, value->at.line);
  int err = text.failed ? fail(WEFT_ERR_NOMEM, "no memory for a plan") : plan_from_text(&plan, text.data, text.size);
  take(maker, run, err, plan, value->at);
  text_free(&text);
}

static void report_missing(const struct slurm_maker *maker) {
  const struct slurm_test *test = maker->test;
  const struct toml_value *args = test ? slurm_test_get(test, "cmd_args") : NULL;
  if (!test)
    slurm_fault(maker->faults, slurm_place("--plan"), "there is no plan: want --plan FILE, or files of tests");
  if (!args) // the fault is reported already
    return;
  for (size_t i = 0; i < test->num_args; i++)
    if (slurm_schema_misspells(test->args[i], "plan", maker->faults) ||
        slurm_schema_misspells(test->args[i], "input_json", maker->faults))
      return;
  slurm_fault(maker->faults, args->key_at, "cmd_args has no plan; want a file's path, JSON, or a list of lists there");
}

// Takes a path in the image.
static void take_unseen(const struct slurm_maker *maker, struct slurm_run *run, const struct toml_value *value) {
  run->plan_source = value->text;
  slurm_launches_at_once(maker, run);
  if (maker->request->followers == SLURM_FOLLOWERS_LATE)
    slurm_fault(
        maker->faults, slurm_place("--followers"),
        "the plan is in the image, so nothing here knows when followers are needed: want early, or --plan FILE");
}

void slurm_make_plan(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct toml_value *plan = slurm_maker_arg(maker, "plan"), *file = slurm_maker_arg(maker, "input_json");
  if (maker->request->plan) {
    load(maker, run, maker->request->plan, slurm_place("--plan"));
    return;
  }
  if (plan && file)
    slurm_fault(maker->faults, file->at, "input_json and plan are both given; want one of them");
  const struct toml_value *value = plan ? plan : file;
  if (!value) {
    report_missing(maker);
    return;
  }
  if (value == file && value->type != TOML_STRING) // the fault is reported already
    return;
  if (value->type == TOML_STRING && !*value->text)
    slurm_fault(maker->faults, value->at, "%s is an empty string; want a file's path%s", plan ? "plan" : "input_json",
                plan ? ", JSON, or a list of lists there" : " there");
  else if (value->type == TOML_ARRAY || (value->type == TOML_STRING && is_json(value->text)))
    from_value(maker, run, value);
  else if (value->type == TOML_STRING && maker->request->as_written)
    take_unseen(maker, run, value);
  else if (value->type == TOML_STRING)
    load(maker, run, find_file(maker, value), value->at);
  else if (value != slurm_test_arg(maker->test, "plan")) // else it is reported already
    slurm_fault(maker->faults, value->at, "a plan is %s; want a file's path, JSON, or a list of lists there",
                toml_type_name(value->type));
}
