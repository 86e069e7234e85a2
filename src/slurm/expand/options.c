// The program and its options: the keys in a test's cmd_args that are not in its schema.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "slurm/expand/maker.h"
#include "slurm/schema/words.h"

enum { STARTUP_TIMEOUT_S = 60 };

static const struct slurm_schema *schema_of(const struct slurm_maker *maker) {
  return maker->test->type == SLURM_TEST_NIXL_EP ? &slurm_keys_nixl_ep : &slurm_keys_nixl_bench;
}

// Turns num_tokens into num-tokens.
static const char *kebab(struct slurm_memory *memory, const char *key) {
  char *name = slurm_memory_take(memory, strlen(key) + 1);
  if (!name)
    return "";
  strcpy(name, key);
  for (char *at = name; *at; at++)
    if (*at == '_')
      *at = '-';
  return name;
}

// Sizes of nixlbench may have units; Weft's options take bytes.
static const char *plain_value(const struct slurm_maker *maker, const struct toml_value *value) {
  size_t length = strlen(value->key ? value->key : "");
  uint64_t bytes;
  bool size = maker->test->type == SLURM_TEST_NIXL_BENCH && !maker->request->as_written && length > 5 &&
              value->type == TOML_STRING && slurm_size_read(value->text, &bytes);
  return size ? slurm_memory_print(maker->memory, "%" PRIu64, bytes) : value->text;
}

// The elements of a list that is not an axis, with commas between them.
static const char *joined(const struct slurm_maker *maker, const struct toml_value *list) {
  const char *text = "";
  for (size_t i = 0; i < list->count; i++)
    text = slurm_memory_print(maker->memory, "%s%s%s", text, i ? "," : "", list->children[i].text);
  return text;
}

static bool is_reserved(const struct slurm_maker *maker, const char *name, const struct toml_value *arg) {
  const char *key;
  if (!slurm_option_is_reserved(name, &key))
    return false;
  slurm_fault(maker->faults, arg->key_at, "%s is set by %s; leave it out", arg->key,
              key ? key : "the script of the job");
  return true;
}

// Whether num_tokens and num-tokens, which are one option, are both given.
static bool is_given_twice(const struct slurm_maker *maker, const struct toml_value *arg) {
  for (size_t i = 0; i < maker->test->num_args && maker->test->args[i] != arg; i++) {
    const struct toml_value *other = maker->test->args[i];
    if (strcmp(kebab(maker->memory, other->key), kebab(maker->memory, arg->key)) == 0) {
      slurm_fault(maker->faults, arg->key_at, "%s is the same option as %s in %s:%u; want one of them", arg->key,
                  other->key, other->key_at.path, other->key_at.line);
      return true;
    }
  }
  return false;
}

// Whether nixlbench has this key to choose how its workers meet. Here the script of the job does this, so the key is
// left out.
static bool is_of_meeting(const struct slurm_maker *maker, const struct toml_value *arg) {
  static const char *const keys[] = {"runtime_type", "benchmark_group"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (maker->test->type == SLURM_TEST_NIXL_BENCH && strcmp(arg->key, keys[i]) == 0)
      return true;
  return false;
}

// Reports an unknown key, with which the program would end at once.
static void unknown_key(const struct slurm_maker *maker, const struct toml_value *arg, const char *near_option) {
  const char *near = slurm_schema_nearest(schema_of(maker), arg->key);
  if (near || near_option) {
    char *name = strdup(near ? near : near_option);
    for (char *at = name; at && *at; at++)
      if (*at == '-')
        *at = '_';
    slurm_fault(maker->faults, arg->key_at,
                "%s is neither a key of cmd_args nor an option of the program; did you mean %s?", arg->key,
                name ? name : "?");
    free(name);
  } else {
    slurm_fault(maker->faults, arg->key_at, "%s is neither a key of cmd_args nor an option of %s: leave it out",
                arg->key, maker->test->type == SLURM_TEST_NIXL_EP ? "weft elastic" : "weft bench transfer");
  }
}

// Checks the option as the program would, before anything is submitted.
static void check(const struct slurm_maker *maker, const struct slurm_run *run, const struct toml_value *arg,
                  const struct toml_value *value, const char *name, const char *text) {
  const char *near = NULL;
  if (maker->request->as_written) { // the program's own options are not checked, except a misspelt required key
    near = slurm_schema_nearest(schema_of(maker), arg->key);
    if (near && slurm_schema_find(schema_of(maker), near)->required && !slurm_test_arg(maker->test, near))
      unknown_key(maker, arg, NULL);
    return;
  }
  int verdict = maker->request->check_option ? maker->request->check_option(run->program, name, text, &near) : 1;
  if (verdict > 0)
    unknown_key(maker, arg, near);
  else if (verdict < 0)
    slurm_fault(maker->faults, value->at, "%s: %s", arg->key, weft_last_error());
}

static void add_option(const struct slurm_maker *maker, struct slurm_run *run, const struct toml_value *arg) {
  const struct toml_value *value = slurm_grid_at(&maker->grid, maker->step, arg);
  bool own_names = maker->request->as_written && maker->test->type == SLURM_TEST_NIXL_BENCH; // --op_type
  const char *name = own_names ? arg->key : kebab(maker->memory, arg->key), *text = NULL;
  if (value->type == TOML_TABLE || value->type == TOML_TIME) {
    slurm_fault(maker->faults, value->at, "%s is %s; want a string, a number or a boolean, which is an option's value",
                arg->key, toml_type_name(value->type));
    return;
  }
  if (value->type == TOML_ARRAY && value->count == 0) {
    slurm_fault(maker->faults, value->at, "%s is an empty list, so the grid has no run; want at least one value",
                arg->key);
    return;
  }
  if (is_of_meeting(maker, arg)) {
    if (!maker->request->as_written) {
      slurm_warn(maker->faults, arg->key_at, "%s is left out: the script of the job chooses how the workers meet",
                 arg->key);
      return;
    }
  } else if (is_reserved(maker, name, arg)) {
    return;
  }
  if (value->type == TOML_ARRAY)
    text = joined(maker, value);
  else if (value->type != TOML_BOOLEAN)
    text = value == arg
               ? plain_value(maker, arg)
               : plain_value(maker, &(struct toml_value){.type = value->type, .key = arg->key, .text = value->text});
  if (is_given_twice(maker, arg))
    return;
  check(maker, run, arg, value, name, text);
  if (text || value->boolean) // an option that is false is left out
    slurm_settings_add(maker->memory, &run->args, name, text);
}

void slurm_make_options(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct slurm_test *test = maker->test;
  for (size_t i = 0; test && i < test->num_args; i++)
    if (!slurm_schema_find(schema_of(maker), test->args[i]->key))
      add_option(maker, run, test->args[i]);
  slurm_settings_sort(&run->args);
  for (size_t i = 0; test && i < test->num_extra_args; i++) {
    const struct toml_value *arg = test->extra_args[i];
    slurm_words_add(maker->memory, &run->extra_args,
                    *arg->text ? slurm_memory_print(maker->memory, "%s=%s", arg->key, arg->text) : arg->key);
  }
  if (!slurm_words_split(maker->memory, &run->extra_args, maker->request->options))
    slurm_fault(maker->faults, slurm_place("--options"), "it has a quote without an end; want quotes in pairs");
  slurm_check_words(maker, run);
}

static void take_store(const struct slurm_maker *maker, struct slurm_run *run) {
  const struct toml_value *port = slurm_maker_arg(maker, "store_port");
  const struct toml_value *timeout = slurm_maker_arg(maker, "service_startup_timeout_seconds");
  const char *endpoints = slurm_maker_arg_text(maker, "etcd_endpoints");
  if (!endpoints)
    endpoints = slurm_maker_arg_text(maker, "etcd_endpoint");
  run->store = maker->request->store ? maker->request->store : endpoints;
  run->store_port = maker->request->store_port ? maker->request->store_port
                    : port && port->type == TOML_INTEGER && port->integer > 0 && port->integer < 65536
                        ? (uint16_t)port->integer
                        : 0;
  run->startup_timeout_s = timeout && timeout->type == TOML_INTEGER && timeout->integer > 0 && timeout->integer <= 86400
                               ? (uint32_t)timeout->integer
                               : STARTUP_TIMEOUT_S;
}

static void as_written(const struct slurm_maker *maker, struct slurm_run *run) {
  const char *python = slurm_maker_arg_text(maker, "python_executable");
  const char *script = slurm_maker_arg_text(maker, "elastic_script");
  const char *benchmark = slurm_maker_arg_text(maker, "path_to_benchmark");
  if (!maker->test) {
    slurm_fault(maker->faults, slurm_place("--as-written"), "there is no test file whose program could run");
  } else if (maker->test->type == SLURM_TEST_NIXL_EP) {
    slurm_words_add(maker->memory, &run->command, python ? python : "python3");
    slurm_words_add(maker->memory, &run->command,
                    script ? script : "/workspace/nixl/examples/device/ep/tests/elastic/elastic.py");
  } else {
    slurm_words_add(maker->memory, &run->command, benchmark ? benchmark : "nixlbench");
    if (!run->store)
      slurm_fault(maker->faults, slurm_place("--as-written"),
                  "nixlbench needs an etcd, but none is named: want --store URL, or etcd_endpoints in cmd_args");
  }
}

static void without_effect(const struct slurm_maker *maker) {
  static const char *const keys[] = {"git_repos", "agent_config", "env_params", "etcd_image_url"};
  for (size_t i = 0; maker->test && i < sizeof keys / sizeof *keys; i++) {
    const struct toml_value *value = slurm_test_get(maker->test, keys[i]);
    if (value && value->count + strlen(value->text))
      slurm_warn(maker->faults, value->key_at, "%s has no effect here", keys[i]);
  }
}

static const char *path_of_weft(const struct slurm_maker *maker, const struct slurm_run *run) {
  const struct slurm_request *request = maker->request;
  return request->weft                                               ? request->weft
         : run->container.kind == SLURM_NO_CONTAINER && request->own ? request->own
                                                                     : "weft";
}

void slurm_make_program(const struct slurm_maker *maker, struct slurm_run *run) {
  bool bench = maker->test && maker->test->type == SLURM_TEST_NIXL_BENCH;
  take_store(maker, run);
  without_effect(maker);
  if (maker->request->as_written) {
    run->program = SLURM_AS_WRITTEN;
    as_written(maker, run);
    return;
  }
  run->program = bench ? SLURM_TRANSFER : SLURM_ELASTIC;
  if (maker->request->followers == SLURM_FOLLOWERS_LATE && run->container.kind != SLURM_NO_CONTAINER)
    slurm_fault(maker->faults, slurm_place("--followers"),
                "the weft of the first node starts late followers, but that weft is in a container: want early");
  slurm_words_add(maker->memory, &run->command, path_of_weft(maker, run));
  slurm_words_add(maker->memory, &run->command, bench ? "bench" : "elastic");
  if (bench)
    slurm_words_add(maker->memory, &run->command, "transfer");
}
