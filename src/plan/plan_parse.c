// Makes a checked plan from text. Every rule of the format is enforced here, and nowhere else.
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "base/fail.h"

enum { MAX_RANK = EP_MAX_CAPACITY - 1 };

// The state of each rank index during the parse of the phases.
struct parser {
  struct plan *plan;
  bool active[EP_MAX_CAPACITY];   // at the end of the phase before
  bool ever[EP_MAX_CAPACITY];     // active in any phase before
  uint32_t seen[EP_MAX_CAPACITY]; // position + 1 at which this phase names it
  bool negative[EP_MAX_CAPACITY]; // this phase names it so
};

static const char *type_name(const json_t *json) {
  switch (json_typeof(json)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "a list";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
    return "an integer";
  case JSON_REAL:
    return "a number with a fraction or exponent";
  case JSON_TRUE:
    return "true";
  case JSON_FALSE:
    return "false";
  default:
    return "null";
  }
}

// Checks one entry against the rules, and stores it.
static int read_entry(struct parser *parser, uint32_t phase, uint32_t position, const json_t *entry) {
  if (!json_is_integer(entry))
    return fail(WEFT_ERR_INVALID, "phase %u, position %u: %s is not a rank: give integers, like 3 or -3", phase,
                position, type_name(entry));
  json_int_t number = json_integer_value(entry);
  if (number > MAX_RANK || number < -MAX_RANK)
    return fail(WEFT_ERR_INVALID,
                "phase %u, position %u: rank %" JSON_INTEGER_FORMAT " is out of range: ranks go to %d", phase, position,
                number, MAX_RANK);
  bool negative = number < 0;
  int32_t rank = (int32_t)(negative ? -number : number);
  if (parser->seen[rank])
    return fail(WEFT_ERR_INVALID,
                "phase %u, position %u: rank %d is at position %u already%s: name each rank once in a phase", phase,
                position, rank, parser->seen[rank] - 1,
                parser->negative[rank] == negative ? "" : ", with the other sign");
  if (negative && phase == 0)
    return fail(WEFT_ERR_INVALID,
                "phase 0, position %u: %" JSON_INTEGER_FORMAT " kills rank %d, but nothing runs before phase 0: "
                "let it start with %d, and kill it in a later phase",
                position, number, rank, rank);
  if (negative && !parser->active[rank])
    return fail(WEFT_ERR_INVALID,
                "phase %u, position %u: %" JSON_INTEGER_FORMAT " kills rank %d, which is not active in phase %u: "
                "only a rank that is active in the phase before can be killed",
                phase, position, number, rank, phase - 1);
  parser->seen[rank] = position + 1;
  parser->negative[rank] = negative;
  return 0;
}

static void append(struct plan_ranks *ranks, int32_t rank) {
  ranks->rank[ranks->count++] = rank;
}

// Sorts what read_entry() stored into the phase's lists, and makes it the "phase before" of the next one.
static void fill_phase(struct parser *parser, struct plan_phase *phase) {
  for (int32_t rank = 0; rank <= MAX_RANK; rank++) {
    bool named = parser->seen[rank] > 0, was = parser->active[rank];
    bool live = named && !parser->negative[rank];
    if (live)
      append(&phase->live, rank);
    if (live && !was)
      append(&phase->joins, rank);
    if (live && !was && parser->ever[rank])
      append(&phase->rejoins, rank);
    if (was && !named)
      append(&phase->leaves, rank);
    if (named && !live)
      append(&phase->kills, rank);
    parser->active[rank] = live;
    parser->ever[rank] |= live;
  }
  phase->num_processes = plan_phase_processes(phase);
}

// One block for the five lists: at most `named` ranks are live, join, or rejoin, at most `before` leave or are killed.
static int allocate_lists(struct plan_phase *phase, size_t named, size_t before) {
  int32_t *block = malloc((3 * named + 2 * before) * sizeof *block);
  if (!block)
    return fail(WEFT_ERR_NOMEM, "no memory for a plan");
  phase->live.rank = block;
  phase->joins.rank = block + named;
  phase->rejoins.rank = block + 2 * named;
  phase->leaves.rank = block + 3 * named;
  phase->kills.rank = block + 3 * named + before;
  return 0;
}

static int read_phase(struct parser *parser, uint32_t index, const json_t *list) {
  if (!json_is_array(list))
    return fail(WEFT_ERR_INVALID, "phase %u is %s: a phase is a list of ranks, like [0, 1, -2]", index,
                type_name(list));
  size_t count = json_array_size(list);
  if (count == 0)
    return fail(WEFT_ERR_INVALID, "phase %u is empty: a phase needs at least one live rank", index);
  memset(parser->seen, 0, sizeof parser->seen);
  for (uint32_t i = 0; i < count; i++) {
    int err = read_entry(parser, index, i, json_array_get(list, i));
    if (err)
      return err;
  }
  struct plan *plan = parser->plan;
  struct plan_phase *phase = &plan->phases[index];
  int err = allocate_lists(phase, count, index > 0 ? plan->phases[index - 1].live.count : 0);
  if (err)
    return err;
  plan->num_phases = index + 1;
  fill_phase(parser, phase);
  if (phase->live.count == 0)
    return fail(WEFT_ERR_INVALID, "phase %u kills every rank that it names: a phase needs at least one live rank",
                index);
  plan->num_launches += phase->joins.count;
  if (phase->num_processes > plan->num_processes)
    plan->num_processes = phase->num_processes;
  return 0;
}

// Ranks that are ever active; a killed one was active before.
static int collect_ranks(struct parser *parser) {
  struct plan *plan = parser->plan;
  uint32_t count = 0;
  for (int32_t rank = 0; rank <= MAX_RANK; rank++)
    count += parser->ever[rank];
  plan->ranks.rank = malloc(count * sizeof *plan->ranks.rank);
  if (!plan->ranks.rank)
    return fail(WEFT_ERR_NOMEM, "no memory for a plan");
  for (int32_t rank = 0; rank <= MAX_RANK; rank++)
    if (parser->ever[rank])
      append(&plan->ranks, rank);
  plan->capacity = (uint32_t)plan->ranks.rank[count - 1] + 1;
  return 0;
}

static int read_phases(struct parser *parser, const json_t *json) {
  if (!json_is_array(json))
    return fail(WEFT_ERR_INVALID, "the plan is %s: want a list of phases, like [[0, 1], [0, 1, 2]]", type_name(json));
  size_t count = json_array_size(json);
  if (count == 0)
    return fail(WEFT_ERR_INVALID, "the plan is empty: it needs at least one phase, like [[0, 1]]");
  if (count > PLAN_MAX_PHASES)
    return fail(WEFT_ERR_INVALID, "the plan has %zu phases: a plan may have %d", count, PLAN_MAX_PHASES);
  parser->plan->phases = calloc(count, sizeof *parser->plan->phases);
  if (!parser->plan->phases)
    return fail(WEFT_ERR_NOMEM, "no memory for a plan");
  for (uint32_t i = 0; i < count; i++) {
    int err = read_phase(parser, i, json_array_get(json, i));
    if (err)
      return err;
  }
  return collect_ranks(parser);
}

// `text` only has lists of integers, so "-0" can only be a rank. Read as 0 it would keep the rank alive that it is
// meant to kill.
static int refuse_minus_zero(const char *text, size_t size) {
  const char *found = memmem(text, size, "-0", 2);
  if (!found)
    return 0;
  uint32_t phase = 0, position = 0;
  for (const char *at = text; at < found; at++) {
    phase += *at == ']';
    position = *at == '[' ? 0 : position + (*at == ',');
  }
  return fail(WEFT_ERR_INVALID,
              "phase %u, position %u: -0 is 0, and rank 0 cannot be killed: want 0, which keeps it live", phase,
              position);
}

int plan_from_text(struct plan **out, const char *text, size_t size) {
  if (size > PLAN_MAX_BYTES)
    return fail(WEFT_ERR_INVALID, "it has more than the %d bytes that a plan may have", PLAN_MAX_BYTES);
  json_error_t where;
  json_t *json = json_loadb(text, size, JSON_DECODE_ANY, &where);
  if (!json)
    return fail(WEFT_ERR_INVALID, "not JSON: line %d, column %d: %s", where.line, where.column, where.text);
  struct plan *plan = calloc(1, sizeof *plan);
  struct parser *parser = calloc(1, sizeof *parser);
  int err = 0;
  if (plan && parser) {
    parser->plan = plan;
    err = read_phases(parser, json);
  } else {
    err = fail(WEFT_ERR_NOMEM, "no memory for a plan");
  }
  free(parser);
  json_decref(json);
  if (!err)
    err = refuse_minus_zero(text, size);
  if (err)
    plan_free(plan);
  else
    *out = plan;
  return err;
}

// Reads to the file's end, whatever kind of file it is; one byte past the limit is enough to know.
static int read_file(FILE *file, char **out, size_t *size) {
  char *text = malloc(PLAN_MAX_BYTES + 1);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory for a plan");
  errno = 0;
  *size = fread(text, 1, PLAN_MAX_BYTES + 1, file);
  if (ferror(file)) {
    int err = fail_errno(errno, "cannot read the plan");
    free(text);
    return err;
  }
  *out = text;
  return 0;
}

int plan_load(struct plan **plan, const char *path) {
  FILE *file = fopen(path, "rbe");
  if (!file)
    return fail_errno(errno, "plan %s: cannot open it", path);
  char *text = NULL;
  size_t size = 0;
  int err = read_file(file, &text, &size);
  fclose(file);
  if (!err)
    err = plan_from_text(plan, text, size);
  free(text);
  return err ? fail_context(err, "plan %s", path) : 0;
}
