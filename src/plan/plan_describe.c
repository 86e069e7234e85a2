// Writes the output of `weft plan`.
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/wrap.h"

static const struct table_column columns[] = {
    {.heading = "phase", .right = true}, {.heading = "processes", .right = true}, {.heading = "live", .wrap = true},
    {.heading = "joins", .wrap = true},  {.heading = "rejoins", .wrap = true},    {.heading = "leaves", .wrap = true},
    {.heading = "killed", .wrap = true},
};

// Writes "0-3 7" for 0 1 2 3 7; skips ranks that are in `without`.
static void add_ranks(struct text *text, const struct plan_ranks *ranks, const struct plan_ranks *without) {
  for (uint32_t i = 0; i < ranks->count; i++) {
    if (without && plan_ranks_contain(without, ranks->rank[i]))
      continue;
    int32_t first = ranks->rank[i], last = first;
    while (i + 1 < ranks->count && ranks->rank[i + 1] == last + 1 &&
           !(without && plan_ranks_contain(without, last + 1))) {
      last++;
      i++;
    }
    text_add(text, text->size > 0 ? " %d" : "%d", first);
    if (last > first)
      text_add(text, last == first + 1 ? " %d" : "-%d", last);
  }
}

static void add_cell(struct table *table, const struct plan_ranks *ranks, const struct plan_ranks *without) {
  struct text text = {0};
  add_ranks(&text, ranks, without);
  table->failed |= text.failed;
  table_add(table, TABLE_PLAIN, "%s", text.data ? text.data : "");
  text_free(&text);
}

static const char *plural(uint32_t count, const char *one, const char *many) {
  return count == 1 ? one : many;
}

static bool print_totals(FILE *out, const struct plan *plan, size_t width) {
  uint32_t rejoins = 0, leaves = 0, kills = 0;
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    rejoins += plan->phases[i].rejoins.count;
    leaves += plan->phases[i].leaves.count;
    kills += plan->phases[i].kills.count;
  }
  struct text text = {0};
  text_add(&text, "%u %s, %u %s, capacity %u. Needs %u process %s at once and %u %s", plan->num_phases,
           plural(plan->num_phases, "phase", "phases"), plan->ranks.count, plural(plan->ranks.count, "rank", "ranks"),
           plan->capacity, plan->num_processes, plural(plan->num_processes, "slot", "slots"), plan->num_launches,
           plural(plan->num_launches, "launch", "launches"));
  if (rejoins > 0)
    text_add(&text, " (%u %s)", rejoins, plural(rejoins, "rejoin", "rejoins"));
  text_add(&text, "; %u %s, %u %s.", leaves, plural(leaves, "leave", "leaves"), kills, plural(kills, "kill", "kills"));
  fputc('\n', out);
  wrap_write(out, text.data ? text.data : "", 0, 0, width > 0 ? width : SIZE_MAX);
  bool failed = text.failed;
  text_free(&text);
  return !failed;
}

static int describe_text(FILE *out, const struct plan *plan, size_t width) {
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof *columns};
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    const struct plan_phase *phase = &plan->phases[i];
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%u", i);
    table_add(&table, TABLE_PLAIN, "%u", phase->num_processes);
    add_cell(&table, &phase->live, NULL);
    add_cell(&table, &phase->joins, &phase->rejoins);
    add_cell(&table, &phase->rejoins, NULL);
    add_cell(&table, &phase->leaves, NULL);
    add_cell(&table, &phase->kills, NULL);
  }
  bool failed = table.failed;
  if (!failed) {
    table_print(out, &table, &(struct table_look){.width = width});
    failed = !print_totals(out, plan, width);
  }
  table_free(&table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory to describe a plan") : 0;
}

static json_t *ranks_to_json(const struct plan_ranks *ranks) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < ranks->count; i++) {
    if (json_array_append_new(list, json_integer(ranks->rank[i]))) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *phases_to_json(const struct plan *plan) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    const struct plan_phase *phase = &plan->phases[i];
    json_t *json = json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "phase", (int)i, "processes",
                             (int)phase->num_processes, "live", ranks_to_json(&phase->live), "joins",
                             ranks_to_json(&phase->joins), "rejoins", ranks_to_json(&phase->rejoins), "leaves",
                             ranks_to_json(&phase->leaves), "killed", ranks_to_json(&phase->kills));
    if (json_array_append_new(list, json)) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static int describe_json(FILE *out, const struct plan *plan) {
  json_t *json = json_pack("{s:o, s:o, s:o, s:i, s:i, s:i}", "plan", plan_to_json(plan), "phases", phases_to_json(plan),
                           "ranks", ranks_to_json(&plan->ranks), "capacity", (int)plan->capacity, "processes",
                           (int)plan->num_processes, "launches", (int)plan->num_launches);
  char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory to describe a plan");
  fprintf(out, "%s\n", text);
  free(text);
  return 0;
}

int plan_describe(FILE *out, const struct plan *plan, bool json, size_t width) {
  int err = json ? describe_json(out, plan) : describe_text(out, plan, width);
  if (!err && (fflush(out) || ferror(out)))
    err = fail_errno(errno, "cannot write the plan's description");
  return err;
}
