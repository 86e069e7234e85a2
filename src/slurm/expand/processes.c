// Processes of each node, their container and their environment.
#include "slurm/expand/maker.h"

#include <string.h>

#include "slurm/schema/words.h"

const struct toml_value *slurm_maker_arg(const struct slurm_maker *maker, const char *key) {
  const struct toml_value *value = maker->test ? slurm_test_arg(maker->test, key) : NULL;
  return value ? slurm_grid_at(&maker->grid, maker->step, value) : NULL;
}

const struct toml_value *slurm_maker_get(const struct slurm_maker *maker, const char *key) {
  const struct toml_value *value = maker->test ? slurm_test_get(maker->test, key) : NULL;
  return value ? slurm_grid_at(&maker->grid, maker->step, value) : NULL;
}

const char *slurm_maker_arg_text(const struct slurm_maker *maker, const char *key) {
  return toml_string(slurm_maker_arg(maker, key));
}

static uint32_t number_of(const struct toml_value *value) {
  return value->type == TOML_INTEGER && value->integer > 0 && value->integer <= 65536 ? (uint32_t)value->integer : 1;
}

void slurm_make_processes(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct toml_value *value = slurm_maker_arg(maker, "num_processes_per_node");
  const uint32_t nodes = run->resources.num_nodes, option = maker->request->processes_per_node;
  // The list is excluded from the grid: it has one number for each node. An empty list is reported already.
  bool each = value && value->type == TOML_ARRAY && value->count && !option;
  if (each && value->count != nodes)
    slurm_fault(maker->faults, value->at,
                "num_processes_per_node, which dse_excluded_args names, has %zu numbers for %u node%s: want one each",
                value->count, nodes, nodes == 1 ? "" : "s");
  run->node_processes = slurm_memory_take(maker->memory, nodes * sizeof *run->node_processes);
  for (uint32_t i = 0; run->node_processes && i < nodes; i++) {
    uint32_t count = option ? option : value && !each ? number_of(value) : 1;
    if (each && i < value->count)
      count = number_of(&value->children[i]);
    run->node_processes[i] = count;
    run->processes_per_node = count > run->processes_per_node ? count : run->processes_per_node;
  }
}

// enroot writes "registry.io/a/b:1" as "registry.io#a/b:1"; a name without a registry is Docker's.
static const char *enroot_name(struct slurm_memory *memory, const char *image) {
  const char *slash = strchr(image, '/');
  size_t host = slash ? (size_t)(slash - image) : 0;
  bool is_host = host && (memchr(image, '.', host) || memchr(image, ':', host));
  if (*image == '/' || *image == '.' || strchr(image, '#') || strstr(image, "://") || !is_host)
    return image;
  return slurm_memory_print(memory, "%.*s#%s", (int)host, image, slash + 1);
}

static enum slurm_container runtime(const struct slurm_maker *maker) {
  const struct toml_value *value = toml_get(maker->system, "container_runtime");
  const char *name = maker->request->container             ? maker->request->container
                     : value && value->type == TOML_STRING ? value->text
                                                           : NULL;
  if (name)
    return strcmp(name, "apptainer") == 0 ? SLURM_APPTAINER
           : strcmp(name, "pyxis") == 0 || strcmp(name, "enroot") == 0
               ? SLURM_PYXIS
               : SLURM_NO_CONTAINER; // or a wrong name, which is reported already
  return maker->request->as_written || maker->request->image ? SLURM_PYXIS : SLURM_NO_CONTAINER;
}

// Whether the text is HOST:CONTAINER, perhaps followed by flags.
static bool is_mount(const char *text) {
  size_t host = strcspn(text, ":");
  return host && text[host] && text[host + 1] && text[host + 1] != ':';
}

static void add_mounts(const struct slurm_maker *maker, struct slurm_image *image) {
  const struct toml_value *list = slurm_maker_get(maker, "extra_container_mounts");
  for (size_t i = 0; list && list->type == TOML_ARRAY && i < list->count; i++) {
    const struct toml_value *mount = &list->children[i];
    if (mount->type == TOML_STRING && !is_mount(mount->text))
      slurm_fault(maker->faults, mount->at, "extra_container_mounts has \"%s\"; want HOST:CONTAINER", mount->text);
    slurm_words_add(maker->memory, &image->mounts, mount->text);
  }
  for (const char *at = maker->request->mounts; at && *at;) {
    size_t length = strcspn(at, ",");
    const char *mount = slurm_memory_print(maker->memory, "%.*s", (int)length, at);
    if (mount && !is_mount(mount))
      slurm_fault(maker->faults, slurm_place("--container-mounts"), "it has \"%s\"; want HOST:CONTAINER", mount);
    slurm_words_add(maker->memory, &image->mounts, mount);
    at += length + (at[length] == ',');
  }
}

void slurm_make_container(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct slurm_request *request = maker->request;
  struct slurm_image *image = &run->container;
  image->kind = runtime(maker);
  add_mounts(maker, image);
  if (image->kind == SLURM_NO_CONTAINER)
    return;
  if (strpbrk(run->directory, ",:")) // these characters separate mounts, and the two paths of a mount
    slurm_fault(maker->faults, slurm_place("--output-dir"),
                "the folder of a run is passed to its container by its path: want a path without ',' and ':'");
  image->image = request->image        ? request->image
                 : request->as_written ? slurm_maker_arg_text(maker, "docker_image_url")
                                       : toml_string(toml_get(maker->system, "container_image"));
  if (!image->image)
    slurm_fault(maker->faults, slurm_place("--container-image"),
                "%s is requested, but no image is given: want an image that contains weft; the image of a test file is "
                "only for --as-written",
                image->kind == SLURM_PYXIS ? "a container by pyxis" : "a container by apptainer");
  else if (image->kind == SLURM_PYXIS)
    image->image = enroot_name(maker->memory, image->image);
  else if (*image->image != '/' && *image->image != '.' && !strstr(image->image, "://"))
    image->image = slurm_memory_print(maker->memory, "docker://%s", image->image);
}

static const char *text_of(const struct toml_value *value) {
  return value->type == TOML_BOOLEAN ? (value->boolean ? "1" : "0") : value->text;
}

void slurm_make_environment(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct toml_value *global = toml_get(maker->system, "global_env_vars");
  for (size_t i = 0; global && global->type == TOML_TABLE && i < global->count; i++) {
    const struct toml_value *value = &global->children[i];
    if (!slurm_is_variable(value->key))
      slurm_fault(maker->faults, value->key_at,
                  "%s cannot be the name of an environment variable: want letters, digits and '_'", value->key);
    else if (value->type == TOML_TABLE || value->type == TOML_ARRAY)
      slurm_fault(maker->faults, value->at, "%s is %s; want a string, a number or a boolean", value->key,
                  toml_type_name(value->type));
    else
      slurm_settings_set(maker->memory, &run->environment, value->key, text_of(value));
  }
  for (size_t i = 0; maker->test && i < maker->test->num_env; i++) {
    const struct toml_value *value = slurm_grid_at(&maker->grid, maker->step, maker->test->env[i]);
    slurm_settings_set(maker->memory, &run->environment, maker->test->env[i]->key, text_of(value));
  }
}
