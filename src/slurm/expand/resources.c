// Finds the nodes, the partition, the time limit and whatever else a job requests: from the command line, else from the
// test, else from the system.
#include "slurm/expand/maker.h"

#include <stdlib.h>
#include <string.h>

#include "slurm/expand/names.h"
#include "slurm/schema/words.h"

enum { WARN_S = 60 };

// The value of an option, checked like a value in a file.
static const char *checked(const struct slurm_maker *maker, const char *option, const char *text,
                           const char *(*check)(const char *text)) {
  const char *want = text ? check(text) : NULL;
  if (want)
    slurm_fault(maker->faults, slurm_place(option), "\"%s\" is wrong: want %s", text, want);
  return want ? NULL : text;
}

// Checks a word that becomes part of an #SBATCH line.
static const char *choose(const struct slurm_maker *maker, const char *option, const char *text, const char *key) {
  return text ? checked(maker, option, text, slurm_line_check) : toml_string(toml_get(maker->system, key));
}

static const struct toml_value *find_named(const struct toml_value *list, const char *name, size_t length) {
  for (size_t i = 0; list && list->type == TOML_ARRAY && i < list->count; i++) {
    const char *found = toml_string(toml_get(&list->children[i], "name"));
    if (found && strlen(found) == length && strncmp(found, name, length) == 0)
      return &list->children[i];
  }
  return NULL;
}

// Joins a list of texts with commas.
static const char *join(struct slurm_memory *memory, const char *before, const struct toml_value *list) {
  for (size_t i = 0; list && i < list->count; i++)
    if (toml_string(&list->children[i]))
      before = before ? slurm_memory_print(memory, "%s,%s", before, list->children[i].text) : list->children[i].text;
  return before;
}

// Adds the nodes in the lists of a group or a partition to `names`.
static void add_nodes(const struct slurm_maker *maker, struct slurm_memory *memory, struct slurm_words *names,
                      const struct toml_value *owner) {
  const struct toml_value *lists = toml_get(owner, "nodes");
  for (size_t i = 0; lists && lists->type == TOML_ARRAY && i < lists->count; i++) {
    const struct toml_value *list = &lists->children[i];
    const char *want = slurm_node_list_read(list->text, NULL);
    if (!want)
      slurm_names_add(memory, names, list->text);
    else if (list->type == TOML_STRING)
      slurm_fault(maker->faults, list->at, "nodes has \"%s\"; want %s", list->text, want);
  }
}

static void add_all_nodes(const struct slurm_maker *maker, struct slurm_memory *memory, struct slurm_words *names,
                          const struct toml_value *partition) {
  const struct toml_value *groups = toml_get(partition, "groups");
  add_nodes(maker, memory, names, partition);
  for (size_t i = 0; groups && groups->type == TOML_ARRAY && i < groups->count; i++)
    add_nodes(maker, memory, names, &groups->children[i]);
}

// Groups that a test takes nodes from. Slurm does not know groups, so the job excludes the partition's nodes that are
// in none of them.
struct groups {
  const struct toml_value *partition, *first; // NULL: there is none
  struct slurm_memory memory;                 // of the names
  struct slurm_words wanted;                  // nodes of the groups, and those that the test names
};

// Takes COUNT nodes of a group, from the text PARTITION:GROUP:COUNT.
static void take_group(const struct slurm_maker *maker, struct slurm_resources *resources, struct groups *groups,
                       const struct toml_value *value, const char *colon, const char *number) {
  const struct toml_value *partition =
      find_named(toml_get(maker->system, "partitions"), value->text, (size_t)(colon - value->text));
  const struct toml_value *group = find_named(toml_get(partition, "groups"), colon + 1, (size_t)(number - colon - 1));
  struct slurm_words members = {0};
  char *end;
  unsigned long count = strtoul(number + 1, &end, 10);
  if (!group)
    slurm_fault(maker->faults, value->at, "\"%s\": the system has no such %s", value->text,
                partition ? "group of that partition" : "partition");
  else if (*end || end == number + 1 || count == 0 || count > 65536)
    slurm_fault(maker->faults, value->at, "\"%s\": want PARTITION:GROUP:COUNT with a count from 1 to 65536",
                value->text);
  else if (groups->partition && partition != groups->partition)
    slurm_fault(maker->faults, value->at, "\"%s\": a job's nodes are of one partition; want that of \"%s\"",
                value->text, groups->first->text);
  else {
    add_nodes(maker, &groups->memory, &members, group);
    slurm_names_sort(&members);
    if (members.count && count > members.count)
      slurm_fault(maker->faults, value->at, "\"%s\": the group has %zu node%s; want no more of it", value->text,
                  members.count, members.count == 1 ? "" : "s");
    for (size_t i = 0; i < members.count; i++)
      slurm_words_add(&groups->memory, &groups->wanted, members.list[i]);
    groups->first = groups->first ? groups->first : value;
    groups->partition = partition;
    resources->num_nodes += (uint32_t)count;
  }
}

// Excludes the nodes of the partition that are in none of the wanted groups and that the test does not name.
static void take_groups(const struct slurm_maker *maker, struct slurm_resources *resources, struct groups *groups) {
  struct slurm_words all = {0};
  resources->partition = toml_string(toml_get(groups->partition, "name"));
  add_all_nodes(maker, &groups->memory, &all, groups->partition);
  if (resources->nodes)
    slurm_names_add(&groups->memory, &groups->wanted, resources->nodes);
  slurm_names_sort(&all);
  slurm_names_sort(&groups->wanted);
  resources->exclude = slurm_names_without(maker->memory, &all, &groups->wanted);
}

static void take_node(const struct slurm_maker *maker, struct slurm_resources *resources, struct groups *groups,
                      const struct toml_value *value, size_t *named) {
  const char *colon = strchr(value->text, ':'), *number = colon ? strchr(colon + 1, ':') : NULL;
  size_t count = 0;
  const char *want = number ? NULL : slurm_node_list_read(value->text, &count);
  if (value->type != TOML_STRING)
    return;
  if (number)
    take_group(maker, resources, groups, value, colon, number);
  else if (want)
    slurm_fault(maker->faults, value->at, "nodes has \"%s\"; want %s, or PARTITION:GROUP:COUNT", value->text, want);
  else
    resources->nodes =
        resources->nodes ? slurm_memory_print(maker->memory, "%s,%s", resources->nodes, value->text) : value->text;
  *named += count;
}

// Takes `nodes` of the test.
static void take_nodes(const struct slurm_maker *maker, struct slurm_resources *resources, size_t *named) {
  const struct toml_value *nodes = slurm_maker_get(maker, "nodes");
  struct groups groups = {0};
  for (size_t i = 0; nodes && nodes->type == TOML_ARRAY && i < nodes->count; i++)
    take_node(maker, resources, &groups, &nodes->children[i], named);
  if (groups.partition)
    take_groups(maker, resources, &groups);
  maker->memory->failed = maker->memory->failed || groups.memory.failed;
  slurm_memory_free(&groups.memory);
}

// Adds `exclude_nodes` of the test to the nodes that its groups exclude.
static void take_exclude(const struct slurm_maker *maker, struct slurm_resources *resources) {
  const struct toml_value *exclude = slurm_maker_get(maker, "exclude_nodes");
  for (size_t i = 0; exclude && exclude->type == TOML_ARRAY && i < exclude->count; i++) {
    const char *want = slurm_node_list_read(exclude->children[i].text, NULL);
    if (want && exclude->children[i].type == TOML_STRING)
      slurm_fault(maker->faults, exclude->children[i].at, "exclude_nodes has \"%s\"; want %s",
                  exclude->children[i].text, want);
  }
  resources->exclude = join(maker->memory, resources->exclude, exclude && exclude->type == TOML_ARRAY ? exclude : NULL);
}

// Reports a node that is named twice: it would be counted twice, and Slurm would add a node that nobody named. Returns
// the number of nodes.
static size_t check_twice(const struct slurm_maker *maker, const char *list, size_t named) {
  const struct toml_value *nodes = slurm_maker_get(maker, "nodes");
  struct slurm_memory memory = {0};
  struct slurm_words names = {0};
  if (list)
    slurm_names_add(&memory, &names, list);
  slurm_names_sort(&names);
  if (names.count < named && !memory.failed)
    slurm_fault(maker->faults, maker->request->node_list ? slurm_place("--nodelist") : nodes->at,
                "the %zu names stand for %zu node%s: want each node once", named, names.count,
                names.count == 1 ? "" : "s");
  maker->memory->failed = maker->memory->failed || memory.failed;
  slurm_memory_free(&memory);
  return names.count;
}

static void count_nodes(const struct slurm_maker *maker, struct slurm_resources *resources) {
  const struct toml_value *wanted = slurm_maker_get(maker, "num_nodes");
  const struct slurm_request *request = maker->request;
  size_t named = 0;
  if (request->node_list) {
    resources->nodes = checked(maker, "--nodelist", request->node_list, slurm_node_list_check);
    slurm_node_list_read(request->node_list, &named);
  } else {
    take_nodes(maker, resources, &named);
  }
  const char *exclude = checked(maker, "--exclude", request->exclude, slurm_node_list_check);
  if (exclude)
    resources->exclude =
        resources->exclude ? slurm_memory_print(maker->memory, "%s,%s", resources->exclude, exclude) : exclude;
  else if (!request->exclude && !request->node_list)
    take_exclude(maker, resources);
  size_t given = check_twice(maker, resources->nodes, named) + resources->num_nodes;
  bool is_number = wanted && wanted->type == TOML_INTEGER && wanted->integer > 0;
  uint32_t asked = request->nodes ? request->nodes : is_number ? (uint32_t)wanted->integer : 0;
  if (asked && given && asked != given)
    slurm_fault(maker->faults, request->nodes || !wanted ? slurm_place("--nodes") : wanted->at,
                "%u nodes are requested, but %zu are named: want the same number, or only one of the two", asked,
                given);
  resources->num_nodes = asked ? asked : given ? (uint32_t)given : 1;
}

static void take_time(const struct slurm_maker *maker, struct slurm_resources *resources) {
  const char *option = checked(maker, "--time-limit", maker->request->time_limit, slurm_time_limit_check);
  resources->time_limit = option ? option : toml_string(slurm_maker_get(maker, "time_limit"));
  if (resources->time_limit && slurm_time_limit_read(resources->time_limit, &resources->time_limit_s))
    resources->time_limit = NULL; // the fault is reported already
  uint64_t limit = resources->time_limit_s;
  resources->warn_s = maker->request->warn_s        ? maker->request->warn_s
                      : limit && limit / 4 < WARN_S ? (uint32_t)(limit / 4)
                                                    : WARN_S;
  if (limit && maker->request->warn_s >= limit)
    slurm_fault(maker->faults, slurm_place("--warn"),
                "a warning %u s before the end is too early for a run of %s: want less", maker->request->warn_s,
                resources->time_limit);
}

// The first of several names with commas between them that the list does not have; NULL: it has all.
static const char *find_unknown(const struct toml_value *list, const char *names, size_t *length) {
  for (;; names += *length + 1) {
    *length = strcspn(names, ",");
    if (!find_named(list, names, *length))
      return names;
    if (!names[*length])
      return NULL;
  }
}

// Slurm takes the partition of several that can start the job first.
static void check_partition(const struct slurm_maker *maker, const char *partition) {
  const struct toml_value *list = toml_get(maker->system, "partitions");
  const struct toml_value *preset = toml_get(maker->system, "default_partition");
  size_t length = 0;
  const char *unknown = partition && list ? find_unknown(list, partition, &length) : NULL;
  if (!unknown)
    return;
  for (size_t i = 0; list->type == TOML_ARRAY && i < list->count; i++)
    if (!toml_string(toml_get(&list->children[i], "name")))
      return; // the fault is reported already
  if (maker->request->partition)
    slurm_fault(maker->faults, slurm_place("--partition"), "the system has no partition \"%.*s\"", (int)length,
                unknown);
  else if (preset)
    slurm_fault(maker->faults, preset->at,
                "default_partition is \"%.*s\", which is not the name of one of [[partitions]]", (int)length, unknown);
}

// The place that gives the number of nodes.
static struct toml_place place_of_number(const struct slurm_maker *maker) {
  const struct toml_value *number = slurm_maker_get(maker, "num_nodes"), *nodes = slurm_maker_get(maker, "nodes");
  if (maker->request->nodes || maker->request->node_list)
    return slurm_place(maker->request->nodes ? "--nodes" : "--nodelist");
  return number ? number->at : nodes ? nodes->at : slurm_place("--nodes");
}

// Checks the number of nodes: if a job asks for more nodes than exist, Slurm keeps it in its queue, or refuses it only
// after submission.
static void check_number(const struct slurm_maker *maker, const struct slurm_resources *resources) {
  const char *name = resources->partition;
  const struct toml_value *partition =
      name ? find_named(toml_get(maker->system, "partitions"), name, strlen(name)) : NULL;
  const size_t errors = maker->faults->errors;
  struct slurm_memory memory = {0};
  struct slurm_words all = {0};
  if (!toml_get(partition, "nodes")) // without a list the partition may have more nodes than its groups
    return;
  add_all_nodes(maker, &memory, &all, partition);
  slurm_names_sort(&all);
  if (all.count < resources->num_nodes && maker->faults->errors == errors && !memory.failed)
    slurm_fault(maker->faults, place_of_number(maker),
                "%u nodes are requested, but partition %s of the system has only %zu: want at most that many",
                resources->num_nodes, name, all.count);
  maker->memory->failed = maker->memory->failed || memory.failed;
  slurm_memory_free(&memory);
}

// Checks that `wanted` of the nodes in `all` are left without those in `exclude`. Returns true if `all` has too few
// anyway.
static bool check_left(const struct slurm_maker *maker, struct slurm_memory *memory, struct slurm_words *all,
                       struct slurm_words *exclude, size_t wanted, const char *which) {
  const struct toml_value *list = slurm_maker_get(maker, "exclude_nodes");
  const bool option = maker->request->exclude != NULL;
  size_t left = 0;
  slurm_names_sort(all);
  slurm_names_sort(exclude);
  const char *others = slurm_names_without(memory, all, exclude);
  if (others)
    slurm_node_list_read(others, &left);
  if (left >= wanted || all->count < wanted)
    return true;
  slurm_fault(maker->faults, option ? slurm_place("--exclude") : list->at,
              "%s leaves %zu node%s %s, but the run needs %zu: exclude fewer nodes", option ? "it" : "exclude_nodes",
              left, left == 1 ? "" : "s", which, wanted);
  return false;
}

// Checks that the nodes that the run names are not excluded, and that enough nodes of its partition are left, as far as
// the system lists them.
static void check_exclude(const struct slurm_maker *maker, const struct slurm_resources *resources) {
  const char *name = resources->partition;
  const struct toml_value *partition =
      name ? find_named(toml_get(maker->system, "partitions"), name, strlen(name)) : NULL;
  struct slurm_memory memory = {0};
  struct slurm_words named = {0}, all = {0}, exclude = {0};
  if (!resources->exclude || slurm_node_list_read(resources->exclude, NULL) ||
      !(maker->request->exclude || slurm_maker_get(maker, "exclude_nodes")))
    return;
  slurm_names_add(&memory, &exclude, resources->exclude);
  if (resources->nodes)
    slurm_names_add(&memory, &named, resources->nodes);
  if (toml_get(partition, "nodes")) // else the partition may have more nodes than its groups
    add_all_nodes(maker, &memory, &all, partition);
  slurm_names_sort(&named);
  if (check_left(maker, &memory, &named, &exclude, named.count, "of those that are named"))
    check_left(maker, &memory, &all, &exclude, resources->num_nodes,
               slurm_memory_print(&memory, "to choose from in partition %s", name ? name : ""));
  maker->memory->failed = maker->memory->failed || memory.failed;
  slurm_memory_free(&memory);
}

static void take_srun_args(const struct slurm_maker *maker, struct slurm_resources *resources,
                           const struct toml_value *line) {
  if (!slurm_words_split(maker->memory, &resources->extra_srun_args, toml_string(line)))
    slurm_fault(maker->faults, line->at, "extra_srun_args has a quote without an end; want quotes in pairs");
}

void slurm_make_resources(const struct slurm_maker *maker, struct slurm_run *run) {
  struct slurm_resources *resources = &run->resources;
  const struct slurm_request *request = maker->request;
  const struct toml_value *gpus = toml_get(maker->system, "gpus_per_node");
  const struct toml_value *words = toml_get(maker->system, "extra_sbatch_args");
  count_nodes(maker, resources);
  take_time(maker, resources);
  if (request->partition || !resources->partition)
    resources->partition = choose(maker, "--partition", request->partition, "default_partition");
  check_partition(maker, resources->partition);
  check_number(maker, resources);
  check_exclude(maker, resources);
  resources->account = choose(maker, "--account", request->account, "account");
  resources->qos = choose(maker, "--qos", request->qos, "qos");
  resources->reservation = choose(maker, "--reservation", request->reservation, "reservation");
  resources->mpi = toml_string(toml_get(maker->system, "mpi"));
  resources->gpus_per_node = request->gpus_per_node                                    ? request->gpus_per_node
                             : gpus && gpus->type == TOML_INTEGER && gpus->integer > 0 ? (uint32_t)gpus->integer
                                                                                       : 0;
  resources->requeue = request->requeue;
  resources->exclusive = !request->share_nodes;
  for (size_t i = 0; words && words->type == TOML_ARRAY && i < words->count; i++)
    slurm_words_add(maker->memory, &resources->extra_sbatch_args, words->children[i].text);
  take_srun_args(maker, resources, toml_get(maker->system, "extra_srun_args"));
  take_srun_args(maker, resources, slurm_maker_get(maker, "extra_srun_args"));
}
