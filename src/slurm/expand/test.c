// Merges entries of a scenario with the tests that they name.
#include "slurm/expand/test.h"

#include <string.h>

#include "base/text/nearest.h"
#include "base/text/text.h"
#include "slurm/schema/words.h"

const struct toml_value *slurm_test_get(const struct slurm_test *test, const char *key) {
  const struct toml_value *own = toml_get(test->entry, key);
  return own ? own : toml_get(test->base, key);
}

const struct toml_value *slurm_test_arg(const struct slurm_test *test, const char *key) {
  for (size_t i = 0; i < test->num_args; i++)
    if (strcmp(test->args[i]->key, key) == 0)
      return test->args[i];
  return NULL;
}

const struct slurm_test *slurm_tests_find(const struct slurm_tests *tests, const char *id) {
  for (size_t i = 0; i < tests->count; i++)
    if (strcmp(tests->list[i].id, id) == 0)
      return &tests->list[i];
  return NULL;
}

const char *slurm_test_string(const struct slurm_test *test, const char *key) {
  return toml_string(slurm_test_get(test, key));
}

// Adds the members of `table` to list[*count]; a member replaces one of the same name.
static void lay_over(const struct toml_value **list, size_t *count, const struct toml_value *table) {
  for (size_t i = 0; table && table->type == TOML_TABLE && i < table->count; i++) {
    size_t at = 0;
    while (at < *count && strcmp(list[at]->key, table->children[i].key) != 0)
      at++;
    list[at] = &table->children[i];
    *count += at == *count;
  }
}

static const struct toml_value **merge(struct slurm_memory *memory, const struct slurm_test *test, const char *key,
                                       size_t *count) {
  const struct toml_value *below = toml_get(test->base, key), *above = toml_get(test->entry, key);
  size_t most = (below ? below->count : 0) + (above ? above->count : 0);
  const struct toml_value **list = slurm_memory_take(memory, (most + 1) * sizeof *list);
  *count = 0;
  if (list) {
    lay_over(list, count, below);
    lay_over(list, count, above);
  }
  return list;
}

// Checks the values and required keys of the merged cmd_args. Keys that are options are checked with the run.
static void check_args(const struct slurm_test *test, struct slurm_faults *faults) {
  const struct slurm_schema *schema = test->type == SLURM_TEST_NIXL_EP ? &slurm_keys_nixl_ep : &slurm_keys_nixl_bench;
  const struct toml_value *table = slurm_test_get(test, "cmd_args");
  for (size_t i = 0; i < test->num_args; i++) {
    const struct slurm_key *key = slurm_schema_find(schema, test->args[i]->key);
    if (key)
      slurm_schema_check_value(key, test->args[i], faults);
  }
  for (size_t i = 0; i < schema->count; i++) {
    const char *name = schema->keys[i].name;
    bool misspelt = false;
    for (size_t j = 0; j < test->num_args; j++) {
      const char *near =
          slurm_schema_find(schema, test->args[j]->key) ? NULL : slurm_schema_nearest(schema, test->args[j]->key);
      misspelt = misspelt || (near && strcmp(near, name) == 0);
    }
    if (schema->keys[i].required && !slurm_test_arg(test, name) && !misspelt)
      slurm_fault(faults, table ? table->key_at : test->at, "cmd_args has no %s; want %s there", name,
                  strcmp(name, "docker_image_url") == 0 ? "the URL of an image" : "a whole number of at least 1");
  }
}

static void check_env(const struct slurm_test *test, struct slurm_faults *faults) {
  static const struct slurm_key value = {.name = "a variable", .types = SCHEMA_SCALAR, .grid = true};
  static const struct slurm_key words = {.name = "an option", .types = SCHEMA_SCALAR};
  for (size_t i = 0; i < test->num_env; i++) {
    slurm_schema_check_value(&value, test->env[i], faults);
    if (!slurm_is_variable(test->env[i]->key))
      slurm_fault(faults, test->env[i]->key_at,
                  "%s cannot be the name of an environment variable: want letters, digits and '_'", test->env[i]->key);
  }
  for (size_t i = 0; i < test->num_extra_args; i++)
    slurm_schema_check_value(&words, test->extra_args[i], faults);
}

// Merges the rest after the type of the test is known.
static void finish(struct slurm_test *test, struct slurm_memory *memory, struct slurm_faults *faults) {
  const char *type = slurm_test_string(test, "test_template_name");
  test->type = type ? slurm_keys_type(type) : SLURM_TEST_UNKNOWN;
  test->args = merge(memory, test, "cmd_args", &test->num_args);
  test->env = merge(memory, test, "extra_env_vars", &test->num_env);
  test->extra_args = merge(memory, test, "extra_cmd_args", &test->num_extra_args);
  if (test->type != SLURM_TEST_UNKNOWN && slurm_test_get(test, "cmd_args"))
    check_args(test, faults);
  check_env(test, faults);
}

static struct slurm_test *add(struct slurm_tests *tests, struct slurm_memory *memory) {
  struct slurm_test *list = slurm_memory_room(memory, tests->list, tests->count, sizeof *list);
  if (!list)
    return NULL;
  tests->list = list;
  list[tests->count] = (struct slurm_test){.type = SLURM_TEST_UNKNOWN};
  return &list[tests->count++];
}

static void no_such_test(struct slurm_files *files, const struct toml_value *name, struct slurm_faults *faults) {
  struct nearest nearest = {.wanted = name->text};
  bool unnamed = faults->unread; // an unread file may have this name; its fault is reported already
  for (size_t i = 0; i < files->count; i++) {
    const struct toml_value *found = toml_get(files->list[i].root, "name");
    if (files->list[i].kind == SLURM_KIND_TEST && found)
      nearest_offer(&nearest, found->text);
    unnamed = unnamed || (files->list[i].kind == SLURM_KIND_TEST && !files->list[i].of_folder && !toml_string(found));
  }
  if (unnamed)
    return;
  if (nearest.best)
    slurm_fault(faults, name->at, "no test has the name \"%s\"; did you mean \"%s\"?", name->text, nearest.best);
  else
    slurm_fault(faults, name->at, "no test has the name \"%s\": give its file, too, or --tests-dir FOLDER", name->text);
}

// The test file that the entry names, by its name or its path.
static struct slurm_file *named(struct slurm_files *files, struct slurm_memory *memory, const struct toml_value *entry,
                                struct slurm_faults *faults) {
  const struct toml_value *name = toml_get(entry, "test_name"), *path = toml_get(entry, "path");
  struct slurm_file *file = NULL;
  if (name && name->type == TOML_STRING) {
    file = slurm_files_test(files, name->text);
    if (!file)
      no_such_test(files, name, faults);
  } else if (path && path->type == TOML_STRING) {
    file = slurm_files_path(files, memory, slurm_file_relative(memory, path->at.path, path->text), path->at, faults);
  }
  if (file)
    slurm_file_check(file, faults);
  return file;
}

static bool is_misspelt(const struct toml_value *entry, const char *name, const struct slurm_faults *faults) {
  for (size_t i = 0; i < entry->count; i++)
    if (slurm_schema_misspells(&entry->children[i], name, faults))
      return true;
  return false;
}

// Checks that an entry either is a whole test or names one.
static void check_mechanism(const struct toml_value *entry, struct slurm_faults *faults) {
  static const char *const needed[] = {"name", "description", "test_template_name", "cmd_args"};
  const struct toml_value *name = toml_get(entry, "test_name"), *path = toml_get(entry, "path");
  const struct toml_value *template = toml_get(entry, "test_template_name");
  struct text missing = {0};
  if (name && path)
    slurm_fault(faults, path->key_at, "path and test_name are both given; want one of them");
  if (template && (name || path))
    slurm_fault(faults, template->key_at,
                "test_template_name and %s are both given, and that test has its own template; want one of them",
                name ? "test_name" : "path");
  if (name || path || is_misspelt(entry, "test_name", faults) || is_misspelt(entry, "path", faults))
    return;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!toml_get(entry, needed[i]) && !is_misspelt(entry, needed[i], faults))
      text_add(&missing, "%s%s", missing.size ? ", no " : "", needed[i]);
  if (missing.size)
    slurm_fault(faults, entry->at, "[[Tests]] has no %s; want that there, or test_name of a test that has it",
                missing.data);
  text_free(&missing);
}

static void check_id(const struct slurm_tests *tests, const struct slurm_test *test, struct slurm_faults *faults) {
  const struct toml_value *id = toml_get(test->entry, "id");
  for (const struct slurm_test *other = tests->list; other < test; other++)
    if (strcmp(other->id, test->id) == 0) {
      slurm_fault(faults, id->at, "id \"%s\" is already used by the test in line %u: want another id", test->id,
                  toml_get(other->entry, "id")->at.line);
      return;
    }
}

static void add_entry(struct slurm_tests *tests, struct slurm_files *files, struct slurm_memory *memory,
                      const struct toml_value *scenario, const struct toml_value *entry, struct slurm_faults *faults) {
  const struct toml_value *id = toml_get(entry, "id");
  struct slurm_file *file = named(files, memory, entry, faults);
  struct slurm_test *test = id && id->type == TOML_STRING ? add(tests, memory) : NULL;
  check_mechanism(entry, faults);
  if (!test)
    return;
  test->id = id->text;
  test->scenario = scenario;
  test->entry = entry;
  test->base = file ? file->root : NULL;
  test->at = entry->at;
  check_id(tests, test, faults);
  finish(test, memory, faults);
}

// A test's name becomes an id: characters that a directory's name should not have become underscores.
static const char *id_of(struct slurm_memory *memory, const char *name) {
  char *id = slurm_memory_take(memory, strlen(name) + 5);
  if (!id)
    return "";
  strcpy(id, name);
  for (char *at = id; *at; at++)
    if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-", *at) ||
        (at == id && (*at == '.' || *at == '-')))
      *at = '_';
  if (strlen(id) > 100)
    id[100] = '\0';
  return *id ? id : "test";
}

static void add_file(struct slurm_tests *tests, struct slurm_memory *memory, const struct slurm_file *file,
                     struct slurm_faults *faults) {
  const struct toml_value *name = toml_get(file->root, "name");
  struct slurm_test *test = name && name->type == TOML_STRING ? add(tests, memory) : NULL;
  if (!test)
    return;
  test->id = id_of(memory, name->text);
  test->base = file->root;
  test->at = file->root->at;
  for (const struct slurm_test *other = tests->list; other < test; other++)
    if (strcmp(other->id, test->id) == 0)
      slurm_fault(faults, name->at, "the test in %s has the same name: want another name", other->at.path);
  finish(test, memory, faults);
}

// Checks the given test files that no entry names: none of them runs, but their faults are reported.
static void check_unnamed(const struct slurm_tests *tests, const struct slurm_files *files, struct slurm_memory *memory,
                          struct slurm_faults *faults) {
  for (size_t i = 0; i < files->count; i++) {
    const struct slurm_file *file = &files->list[i];
    struct slurm_test alone = {.base = file->root, .at = file->root->at};
    bool is_named = file->kind != SLURM_KIND_TEST || file->of_folder;
    for (size_t j = 0; j < tests->count; j++)
      is_named = is_named || tests->list[j].base == file->root;
    if (!is_named)
      finish(&alone, memory, faults);
  }
}

void slurm_tests_make(struct slurm_tests *tests, struct slurm_files *files, struct slurm_memory *memory,
                      struct slurm_faults *faults) {
  const struct slurm_file *scenario = slurm_files_first(files, SLURM_KIND_SCENARIO);
  if (scenario) {
    const struct toml_value *root = scenario->root, *entries = toml_get(root, "Tests");
    for (size_t i = 0; entries && entries->type == TOML_ARRAY && i < entries->count; i++)
      if (entries->children[i].type == TOML_TABLE)
        add_entry(tests, files, memory, root, &entries->children[i], faults);
    check_unnamed(tests, files, memory, faults);
    return;
  }
  for (size_t i = 0; i < files->count; i++)
    if (files->list[i].kind == SLURM_KIND_TEST && !files->list[i].of_folder)
      add_file(tests, memory, &files->list[i], faults);
}
