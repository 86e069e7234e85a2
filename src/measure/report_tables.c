// The tables of the text report.
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/wrap.h"
#include "measure/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define FIGURE(heading, group, spare)                                                                                  \
  { heading, group, true, false, spare }

// clang-format off
static const struct table_column phase_columns[] = {
    {.heading = "rank", .right = true},
    {.heading = "host:slot"},
    {.heading = "state"},
    FIGURE("logical", "dispatch GB/s", 0),
    FIGURE("wire", "dispatch GB/s", 4),
    FIGURE("logical", "combine GB/s", 0),
    FIGURE("wire", "combine GB/s", 5),
    FIGURE("avg", "both, us", 0),
    FIGURE("p50", "both, us", 2),
    FIGURE("p99", "both, us", 1),
    FIGURE("max", "both, us", 3),
};
// clang-format on

// Adds a figure with as many decimals as seven columns have room for, if it is below ten million.
static void add_figure(struct table *table, double value, int decimals) {
  int digits = value >= 99999.5 ? 0 : value >= 9999.5 && decimals > 1 ? 1 : decimals;
  table_add(table, TABLE_PLAIN, "%.*f", digits, value);
}

static void add_figures(struct table *table, const struct results_rank *rank) {
  const struct results_times *both = &rank->both;
  if (both->count == 0)
    return;
  add_figure(table, results_gbps(rank->dispatch_logical_bytes, rank->dispatch.avg), 2);
  add_figure(table, results_gbps(rank->dispatch_wire_bytes, rank->dispatch.avg), 2);
  add_figure(table, results_gbps(rank->combine_logical_bytes, rank->combine.avg), 2);
  add_figure(table, results_gbps(rank->combine_wire_bytes, rank->combine.avg), 2);
  add_figure(table, both->avg, 1);
  add_figure(table, both->p50, 1);
  add_figure(table, both->p99, 1);
  add_figure(table, both->max, 1);
}

// Adds the slot, the GPU if there is one, and the host, which is cut if it is too long.
static void add_place(struct table *table, const struct results_rank *rank, bool unicode) {
  const char *host = rank->host;
  char gpu[16] = "";
  if (rank->gpu >= 0)
    snprintf(gpu, sizeof gpu, "/%" PRId32, rank->gpu);
  size_t taken = strlen(gpu), room = taken < 9 ? 11 - taken : 2;
  if (!*host)
    table_add(table, TABLE_PLAIN, "%s", "");
  else if (strlen(host) <= room)
    table_add(table, TABLE_PLAIN, "%s:%" PRId32 "%s", host, rank->local_rank, gpu);
  else
    table_add(table, TABLE_PLAIN, "%.*s%s:%" PRId32 "%s", (int)room - 1, host, unicode ? "…" : "~", rank->local_rank,
              gpu);
}

// Whether a rank never took part in the phase, and has only its state to show. Neighbours with the same such state
// share a row.
static bool is_idle(const struct results_rank *rank) {
  return (rank->state == RESULTS_NOT_MEMBER || rank->state == RESULTS_UNREACHED) && !*rank->host && !*rank->reason;
}

// The last rank that shares a row with rank `first`.
static uint32_t run_end(const struct results_phase *phase, uint32_t first) {
  const struct results_rank *ranks = phase->ranks;
  uint32_t last = first;
  while (is_idle(&ranks[first]) && last + 1 < phase->num_ranks && is_idle(&ranks[last + 1]) &&
         ranks[last + 1].state == ranks[first].state && ranks[last + 1].rank == ranks[last].rank + 1)
    last++;
  return last;
}

static void add_ranks(struct table *table, const struct results_phase *phase, bool unicode) {
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    const struct report_state *state = &report_states[rank->state];
    uint32_t last = run_end(phase, i);
    table_row(table);
    if (last > i)
      table_add(table, TABLE_PLAIN, "%" PRId32 "-%" PRId32, rank->rank, phase->ranks[last].rank);
    else
      table_add(table, TABLE_PLAIN, "%" PRId32, rank->rank);
    add_place(table, rank, unicode);
    table_add(table, state->style, "%s %s", unicode ? state->unicode : state->ascii, state->name);
    add_figures(table, rank);
    if (*rank->reason)
      table_note(table, 2, TABLE_RED, "%s", rank->reason);
    i = last;
  }
}

// Prints a table and frees it.
static int finish(FILE *out, struct table *table, const struct report_options *options) {
  bool failed = table->failed;
  const struct table_look look = {options->color, options->unicode, report_width(options)};
  size_t left_out = failed ? 0 : table_print(out, table, &look);
  if (left_out > 0)
    fprintf(out, "%zu column%s left out: the lines are too short (CSV and JSON have all columns)\n", left_out,
            left_out == 1 ? " is" : "s are");
  table_free(table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for the report") : 0;
}

static void add_title(struct table *table, const struct results_phase *phase) {
  struct report_counts counts = {0};
  report_count(&counts, phase);
  struct text title = {0};
  text_add(&title, "phase %" PRIu32 ": ", phase->index);
  report_add_counts(&title, &counts);
  if (results_phase_gbps(phase) > 0)
    text_add(&title, "; mean dispatch + combine %.2f GB/s", results_phase_gbps(phase));
  table_note(table, 0, TABLE_PLAIN, "%s", "");
  table_note(table, 0, TABLE_BOLD, "%s", title.data ? title.data : "");
  table->failed |= title.failed;
  text_free(&title);
}

static bool has_gpus(const struct results *results) {
  for (uint32_t i = 0; i < results->num_phases; i++)
    for (uint32_t k = 0; k < results->phases[i].num_ranks; k++)
      if (*results->phases[i].ranks[k].host && results->phases[i].ranks[k].gpu >= 0)
        return true;
  return false;
}

int report_phases(FILE *out, const struct results *results, const struct report_options *options) {
  struct table_column columns[COUNT(phase_columns)];
  memcpy(columns, phase_columns, sizeof columns);
  if (has_gpus(results))
    columns[1].heading = "host:slot/gpu";
  struct table table = {.columns = columns, .num_columns = COUNT(phase_columns)};
  for (uint32_t i = 0; i < results->num_phases; i++) {
    add_title(&table, &results->phases[i]);
    add_ranks(&table, &results->phases[i], options->unicode);
  }
  fputc('\n', out);
  return finish(out, &table, options);
}

// clang-format off
static const struct table_column transition_columns[] = {
    {.heading = "phase", .right = true},
    {.heading = "rank", .right = true},
    {.heading = "change"},
    {.heading = "epoch", .right = true, .spare = 3},
    {.heading = "op", .right = true, .spare = 4},
    FIGURE("launch", "join ms", 0),
    FIGURE("connect", "join ms", 0),
    FIGURE("first op", "join ms", 0),
    FIGURE("found", "departure ms", 0),
    FIGURE("median", "departure ms", 2),
    FIGURE("out", "departure ms", 0),
    FIGURE("us", "longest stall", 0),
    FIGURE("rank", "longest stall", 0),
    FIGURE("median", "longest stall", 1),
    FIGURE("ratio", "longest stall", 0),
};
// clang-format on

// Each change, and the state of a rank that has the same style.
static const struct {
  const char *name;
  enum results_state like;
} changes[] = {
    [RESULTS_JOIN] = {"join", RESULTS_PASSED},
    [RESULTS_LEAVE] = {"leave", RESULTS_LEFT},
    [RESULTS_KILL] = {"kill", RESULTS_KILLED},
};

// Adds a duration, or nothing if there is none.
static void add_ms(struct table *table, bool applies, double us) {
  if (applies && us >= 0)
    add_figure(table, us / 1e3, 2);
  else
    table_add(table, TABLE_PLAIN, "%s", "");
}

static void add_stall(struct table *table, const struct results_transition *t) {
  if (t->longest_stall_us < 0)
    return;
  add_figure(table, t->longest_stall_us, 1);
  if (t->stalled_rank >= 0)
    table_add(table, TABLE_PLAIN, "%" PRId32, t->stalled_rank);
  else
    table_add(table, TABLE_PLAIN, "%s", "");
  if (t->median_us <= 0)
    return;
  add_figure(table, t->median_us, 1);
  table_add(table, TABLE_PLAIN, "%.1fx", t->longest_stall_us / t->median_us);
}

static void add_transition(struct table *table, const struct results_transition *t, bool unicode) {
  const struct report_state *look = &report_states[changes[t->change].like];
  const char *symbol = t->change == RESULTS_JOIN ? (unicode ? "→" : ">") : unicode ? look->unicode : look->ascii;
  bool join = t->change == RESULTS_JOIN;
  table_row(table);
  table_add(table, TABLE_PLAIN, "%" PRIu32, t->phase);
  table_add(table, TABLE_PLAIN, "%" PRId32, t->rank);
  table_add(table, look->style, "%s %s", symbol, changes[t->change].name);
  table_add(table, TABLE_PLAIN, "%" PRIu64, t->epoch);
  table_add(table, TABLE_PLAIN, "%" PRIu64, t->op);
  add_ms(table, join, t->launch_us);
  add_ms(table, join, t->connect_us);
  add_ms(table, join, t->first_dispatch_us);
  add_ms(table, t->change == RESULTS_KILL, t->detect_us);
  add_ms(table, t->change == RESULTS_KILL, t->detect_median_us);
  add_ms(table, !join, t->first_dispatch_us);
  add_stall(table, t);
}

enum { LABEL = 13 };

int report_transitions(FILE *out, const struct results *results, const struct report_options *options) {
  fputc('\n', out);
  table_print_text(out, options->color, TABLE_BOLD, "transitions", LABEL);
  fputs(options->color ? "\033[2m" : "", out);
  wrap_write(out,
             "first op: first good dispatch of a joiner; found: loss noticed by a survivor, median of all; out: "
             "removed from the view",
             LABEL, LABEL, report_width(options));
  fputs(options->color ? "\033[0m" : "", out);
  struct table table = {.columns = transition_columns, .num_columns = COUNT(transition_columns)};
  for (uint32_t i = 0; i < results->num_transitions; i++)
    add_transition(&table, &results->transitions[i], options->unicode);
  return finish(out, &table, options);
}
