// The exhaustive search of a model's states, breadth first.
#include "model/support/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The states of one level, one after the other.
struct level {
  uint8_t *bytes;
  size_t size, room;
  size_t *end; // of each state
  uint32_t count, end_room;
};

struct seen {
  uint64_t hash;
  uint32_t parent, step;
};

struct edge {
  uint32_t from, to;
};

struct explore {
  const struct explore_model *model;
  struct explore_limits limits;
  struct seen *seen; // by number, from 1
  uint32_t count, room;
  uint32_t *slots; // numbers by hash, 0: free
  uint32_t num_slots;
  struct level levels[2];
  struct edge *edges; // steps that are no faults
  size_t num_edges, edge_room;
  bool *is_end;
  uint32_t current; // the number of the state that is expanded
  // The scenario to print: up to a state, and one more step if that step is wrong.
  uint32_t broken_at, broken_step;
  uint64_t broken_hash; // of the state after that step, 0: none
  struct explore_result result;
  // While a scenario is printed: the step to take is the one that leads to this hash.
  bool printing;
  uint64_t wanted;
  uint32_t wanted_step;
  uint8_t *reached; // the state that the scenario has reached
  size_t reached_size;
};

static void *grow(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (!memory) {
    fprintf(stderr, "explore: no memory for %zu bytes\n", size);
    abort();
  }
  return memory;
}

static uint64_t hash_of(const uint8_t *bytes, size_t size) {
  uint64_t hash = size * 0x9e3779b97f4a7c15u;
  for (; size > 0;) {
    size_t part = size < 8 ? size : 8;
    uint64_t word = 0;
    memcpy(&word, bytes, part);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    bytes += part;
    size -= part;
  }
  hash *= 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 29;
}

static void rehash(struct explore *x) {
  x->num_slots = x->num_slots ? 2 * x->num_slots : 1u << 16;
  free(x->slots);
  x->slots = calloc(x->num_slots, sizeof *x->slots);
  if (!x->slots)
    abort();
  for (uint32_t i = 1; i <= x->count; i++) {
    uint32_t at = (uint32_t)x->seen[i].hash & (x->num_slots - 1);
    while (x->slots[at])
      at = (at + 1) & (x->num_slots - 1);
    x->slots[at] = i;
  }
}

static void keep(struct level *level, const uint8_t *state, size_t size) {
  if (level->size + size > level->room)
    level->bytes = grow(level->bytes, level->room = 2 * (level->room + size));
  if (level->count == level->end_room)
    level->end = grow(level->end, (level->end_room = 2 * level->end_room + 64) * sizeof *level->end);
  memcpy(level->bytes + level->size, state, size);
  level->size += size;
  level->end[level->count++] = level->size;
}

// Returns the number of a state, and adds a new state to the next level.
static uint32_t number_of(struct explore *x, uint32_t step, const uint8_t *state, size_t size) {
  uint64_t hash = hash_of(state, size);
  if (2 * (uint64_t)x->count >= x->num_slots)
    rehash(x);
  uint32_t at = (uint32_t)hash & (x->num_slots - 1);
  for (; x->slots[at]; at = (at + 1) & (x->num_slots - 1))
    if (x->seen[x->slots[at]].hash == hash)
      return x->slots[at];
  if (x->count + 1 >= x->room) {
    x->room = x->room ? 2 * x->room : 1u << 16;
    x->seen = grow(x->seen, x->room * sizeof *x->seen);
    x->is_end = grow(x->is_end, x->room);
  }
  x->slots[at] = ++x->count;
  x->seen[x->count] = (struct seen){.hash = hash, .parent = x->current, .step = step};
  x->is_end[x->count] = false;
  keep(&x->levels[1], state, size);
  return x->count;
}

static void add_edge(struct explore *x, uint32_t to) {
  if (x->num_edges == x->edge_room)
    x->edges = grow(x->edges, (x->edge_room = 2 * x->edge_room + 1024) * sizeof *x->edges);
  x->edges[x->num_edges++] = (struct edge){x->current, to};
}

static void break_at(struct explore *x, uint32_t number, const char *why) {
  if (x->result.broken)
    return;
  x->result.broken = true;
  x->broken_at = number;
  snprintf(x->result.broken_why, sizeof x->result.broken_why, "%s", why);
}

void explore_step(struct explore *x, uint32_t step, bool fault, const uint8_t *state, size_t size, const char *broken) {
  if (x->printing) {
    if (step == x->wanted_step && hash_of(state, size) == x->wanted) {
      x->reached = grow(x->reached, size ? size : 1);
      memcpy(x->reached, state, size);
      x->reached_size = size;
    }
    return;
  }
  if (x->result.broken)
    return;
  x->result.steps++;
  if (broken) {
    x->broken_step = step;
    x->broken_hash = hash_of(state, size);
    break_at(x, x->current, broken);
    return;
  }
  uint32_t number = number_of(x, step, state, size);
  if (x->model->ends && !fault)
    add_edge(x, number);
}

void explore_broken(struct explore *x, const char *why) {
  if (!x->printing)
    break_at(x, x->current, why);
}

void explore_end(struct explore *x) {
  if (x->printing)
    return;
  x->is_end[x->current] = true;
  x->result.ends++;
}

// Checks that every state can reach an end without a further fault. Otherwise members could take steps for ever.
static void check_ends(struct explore *x) {
  bool *reaches = calloc(x->count + 1u, 1), again = true;
  if (!reaches)
    abort();
  memcpy(reaches, x->is_end, x->count + 1u);
  while (again) {
    again = false;
    for (size_t i = x->num_edges; i-- > 0;)
      if (!reaches[x->edges[i].from] && reaches[x->edges[i].to])
        again = reaches[x->edges[i].from] = true;
  }
  for (uint32_t i = 1; i <= x->count && !x->result.broken; i++)
    if (!reaches[i])
      break_at(x, i, "from here no end is reached any more, though no fault is left to come");
  free(reaches);
}

// Takes the step again from the state that the scenario has reached, and prints it.
static void print_step(struct explore *x, uint32_t number, uint32_t step, uint64_t hash) {
  char text[256];
  uint8_t *from = x->reached;
  size_t size = x->reached_size;
  x->reached = NULL;
  x->wanted = hash;
  x->wanted_step = step;
  x->model->expand(x, x->model->arg, from, size);
  free(from);
  x->model->describe(x->model->arg, step, text, sizeof text);
  printf("  %2u. %s\n", number, text);
}

static void print_scenario(struct explore *x, const uint8_t *state, size_t size) {
  uint32_t length = 0, *path = NULL, number = 0;
  for (uint32_t at = x->broken_at; at > 1; at = x->seen[at].parent) {
    path = grow(path, (length + 1) * sizeof *path);
    path[length++] = at;
  }
  printf("%s: %s\n", x->model->name, x->result.broken_why);
  x->printing = true;
  x->reached = grow(NULL, size ? size : 1);
  memcpy(x->reached, state, size);
  x->reached_size = size;
  while (length-- > 0)
    print_step(x, ++number, x->seen[path[length]].step, x->seen[path[length]].hash);
  if (x->broken_hash)
    print_step(x, ++number, x->broken_step, x->broken_hash);
  if (x->model->show && x->reached)
    x->model->show(x->model->arg, x->reached, x->reached_size);
  free(path);
}

static void search_level(struct explore *x) {
  struct level *now = &x->levels[0];
  uint32_t first = x->count - now->count;
  size_t begin = 0;
  for (uint32_t i = 0; i < now->count && !x->result.broken; i++) {
    if (x->limits.states && x->count > x->limits.states)
      return;
    x->current = first + i + 1;
    x->model->expand(x, x->model->arg, now->bytes + begin, now->end[i] - begin);
    begin = now->end[i];
  }
}

static void next_level(struct explore *x) {
  struct level done = x->levels[0];
  x->levels[0] = x->levels[1];
  done.size = done.count = 0;
  x->levels[1] = done;
}

struct explore_result explore_run(const struct explore_model *model, const uint8_t *state, size_t size,
                                  struct explore_limits limits, bool quiet) {
  struct explore x = {.model = model, .limits = limits};
  number_of(&x, 0, state, size);
  for (next_level(&x); x.levels[0].count > 0 && !x.result.broken; next_level(&x)) {
    search_level(&x);
    if (x.limits.states && x.count > x.limits.states)
      break;
    x.result.depth += x.levels[1].count > 0;
  }
  x.result.states = x.count;
  x.result.complete = !x.result.broken && x.levels[0].count == 0;
  if (x.result.complete && model->ends)
    check_ends(&x);
  if (x.result.broken && !quiet)
    print_scenario(&x, state, size);
  for (int i = 0; i < 2; i++) {
    free(x.levels[i].bytes);
    free(x.levels[i].end);
  }
  free(x.seen);
  free(x.is_end);
  free(x.slots);
  free(x.edges);
  free(x.reached);
  return x.result;
}
