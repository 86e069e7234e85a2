// Walks dependencies depth first; a test that depends on itself in this way is in a circle.
#include "slurm/expand/dependencies.h"

#include <string.h>

#include "base/text/nearest.h"
#include "base/text/text.h"
#include "slurm/schema/words.h"

enum mark { NEW, ON_THE_WAY, DONE };

struct walk {
  const struct slurm_tests *tests;
  struct slurm_faults *faults;
  enum mark *marks;
  size_t *path, depth; // tests on the way
  size_t *order, count;
  bool failed;
};

static const struct toml_value *list_of(const struct slurm_test *test) {
  const struct toml_value *list = toml_get(test->entry, "dependencies");
  return list && list->type == TOML_ARRAY ? list : NULL;
}

// Whether an entry has no id or a wrong one, which is reported already. That entry may be the wanted one.
static bool has_unknown(const struct toml_value *scenario) {
  const struct toml_value *entries = toml_get(scenario, "Tests");
  for (size_t i = 0; entries && entries->type == TOML_ARRAY && i < entries->count; i++) {
    const char *id = toml_string(toml_get(&entries->children[i], "id"));
    if (!id || slurm_id_check(id))
      return true;
  }
  return false;
}

static void report_unknown(struct walk *walk, const struct slurm_test *test, const struct toml_value *id) {
  struct nearest nearest = {.wanted = id->text};
  walk->failed = true;
  if (has_unknown(test->scenario))
    return;
  for (size_t i = 0; i < walk->tests->count; i++)
    nearest_offer(&nearest, walk->tests->list[i].id);
  slurm_fault(walk->faults, id->at, "no test has the id \"%s\"%s%s%s", id->text,
              nearest.best ? "; did you mean \"" : "", nearest.best ? nearest.best : "", nearest.best ? "\"?" : "");
}

static void report_circle(struct walk *walk, size_t index, const struct toml_value *id) {
  struct text circle = {0};
  size_t from = 0;
  while (walk->path[from] != index)
    from++;
  for (size_t i = from; i < walk->depth; i++)
    text_add(&circle, "%s, which waits for ", walk->tests->list[walk->path[i]].id);
  slurm_fault(walk->faults, id->at, "dependencies form a circle: %s%s: remove one of them", circle.data,
              walk->tests->list[index].id);
  text_free(&circle);
  walk->failed = true;
}

static void visit(struct walk *walk, size_t index) {
  const struct toml_value *list = list_of(&walk->tests->list[index]);
  walk->marks[index] = ON_THE_WAY;
  walk->path[walk->depth++] = index;
  for (size_t i = 0; list && i < list->count; i++) {
    const struct toml_value *id = toml_get(&list->children[i], "id");
    if (!id || id->type != TOML_STRING)
      continue;
    const struct slurm_test *found = slurm_tests_find(walk->tests, id->text);
    size_t other = found ? (size_t)(found - walk->tests->list) : 0;
    if (!found)
      report_unknown(walk, &walk->tests->list[index], id);
    else if (walk->marks[other] == ON_THE_WAY)
      report_circle(walk, other, id);
    else if (walk->marks[other] == NEW)
      visit(walk, other);
  }
  walk->depth--;
  walk->marks[index] = DONE;
  walk->order[walk->count++] = index;
}

bool slurm_dependencies_order(const struct slurm_tests *tests, size_t *order, struct slurm_memory *memory,
                              struct slurm_faults *faults) {
  struct walk walk = {.tests = tests, .faults = faults, .order = order};
  walk.marks = slurm_memory_take(memory, (tests->count + 1) * sizeof *walk.marks);
  walk.path = slurm_memory_take(memory, (tests->count + 1) * sizeof *walk.path);
  for (size_t i = 0; walk.marks && walk.path && i < tests->count; i++)
    if (walk.marks[i] == NEW)
      visit(&walk, i);
  return !walk.failed && walk.count == tests->count;
}

static enum slurm_dependency_type type_of(const char *text) {
  return strcmp(text, "end_post_comp") == 0     ? SLURM_END_POST_COMP
         : strcmp(text, "start_post_init") == 0 ? SLURM_START_POST_INIT
                                                : SLURM_START_POST_COMP;
}

// By default tests do not run after a failed test that they depend on; with job_status_check = false they do.
static bool counts(const struct slurm_test *test) {
  const struct toml_value *check = toml_get(test->entry, "job_status_check");
  if (!check)
    check = toml_get(test->scenario, "job_status_check");
  return !check || check->type != TOML_BOOLEAN || check->boolean;
}

void slurm_dependencies_read(const struct slurm_test *test, struct slurm_run *run, struct slurm_memory *memory) {
  const struct toml_value *list = list_of(test);
  run->dependencies = list ? slurm_memory_take(memory, (list->count + 1) * sizeof *run->dependencies) : NULL;
  for (size_t i = 0; run->dependencies && i < list->count; i++) {
    const struct toml_value *type = toml_get(&list->children[i], "type"), *id = toml_get(&list->children[i], "id");
    if (type && type->type == TOML_STRING && id && id->type == TOML_STRING)
      run->dependencies[run->num_dependencies++] =
          (struct slurm_dependency){type_of(type->text), slurm_memory_keep(memory, id->text), counts(test)};
  }
}
