// The results of an elastic run as the document of a page.
#include <math.h>
#include <string.h>

#include "base/text/digits.h"
#include "page/assemble.h"
#include "page/documents.h"

// --- texts that many cells share ---

// The index of a text in the list; a new text is added. Mostly it is the text that was found last.
static json_t *number_of(json_t *list, const char *text) {
  size_t count = json_array_size(list);
  for (size_t i = count; i-- > 0;)
    if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
      return json_integer((json_int_t)i);
  return json_array_append_new(list, page_string(text)) == 0 ? json_integer((json_int_t)count) : NULL;
}

// --- cells ---

struct lists {
  json_t *hosts, *reasons, *cells;
};

// clang-format off
static const char *const columns[] = {
    "phase", "rank", "state", "host", "slot", "gpu", "life", "reason", "checked", "lost", "count",
    "both_avg", "both_min", "both_p50", "both_p99", "both_max",
    "dispatch_avg", "dispatch_min", "dispatch_p50", "dispatch_p99", "dispatch_max",
    "combine_avg", "combine_min", "combine_p50", "combine_p99", "combine_max",
    "gbps", "dispatch_logical_gbps", "dispatch_wire_gbps", "combine_logical_gbps", "combine_wire_gbps"};
// clang-format on

// Whole numbers of digits_rounded() are written without ".0", which saves 100 KB in a large run.
static json_t *number(double value) {
  double rounded = digits_rounded(value);
  if (!isfinite(rounded))
    return json_null();
  if (fabs(rounded) < 1e15 && rounded == (double)(json_int_t)rounded)
    return json_integer((json_int_t)rounded);
  return json_real(rounded);
}

static int add(json_t *cell, double value) {
  return json_array_append_new(cell, number(value));
}

static int add_times(json_t *cell, const struct results_times *times) {
  int err = add(cell, times->avg);
  err = err ? err : add(cell, times->min);
  err = err ? err : add(cell, times->p50);
  err = err ? err : add(cell, times->p99);
  return err ? err : add(cell, times->max);
}

static int add_measured(json_t *cell, const struct results_rank *rank) {
  const double rates[] = {results_rank_gbps(rank), results_gbps(rank->dispatch_logical_bytes, rank->dispatch.avg),
                          results_gbps(rank->dispatch_wire_bytes, rank->dispatch.avg),
                          results_gbps(rank->combine_logical_bytes, rank->combine.avg),
                          results_gbps(rank->combine_wire_bytes, rank->combine.avg)};
  int err = add_times(cell, &rank->both);
  err = err ? err : add_times(cell, &rank->dispatch);
  err = err ? err : add_times(cell, &rank->combine);
  for (size_t i = 0; i < sizeof rates / sizeof *rates && !err; i++)
    err = add(cell, rates[i]);
  return err;
}

// A rank without a timed operation has no figures: its cell ends with their count, 0.
static int add_cell(struct lists *lists, uint32_t phase, uint32_t index, uint32_t life,
                    const struct results_rank *rank) {
  json_t *cell =
      json_pack("[i,i,i,o?,i,i,i,o?]", (int)phase, (int)index, (int)rank->state, number_of(lists->hosts, rank->host),
                (int)rank->local_rank, (int)rank->gpu, (int)life, number_of(lists->reasons, rank->reason));
  int err = !cell || json_array_append_new(lists->cells, cell) != 0;
  err = err ? err : add(cell, (double)rank->checked);
  err = err ? err : add(cell, (double)rank->num_lost_selections);
  err = err ? err : add(cell, (double)rank->both.count);
  return err || rank->both.count == 0 ? err : add_measured(cell, rank);
}

// The lives of a rank are its processes, numbered from 1 in order. 0: no process is known.
static int add_rank(struct lists *lists, const struct results *results, uint32_t index) {
  uint64_t last = 0;
  uint32_t lives = 0;
  int err = 0;
  for (uint32_t p = 0; p < results->num_phases && !err; p++) {
    const struct results_phase *phase = &results->phases[p];
    const struct results_rank *rank = index < phase->num_ranks ? &phase->ranks[index] : NULL;
    if (!rank || rank->state == RESULTS_NOT_MEMBER)
      continue;
    bool begins = rank->incarnation && rank->incarnation != last;
    last = rank->incarnation ? rank->incarnation : last;
    lives += begins;
    err = add_cell(lists, p, index, rank->incarnation ? lives : 0, rank);
  }
  return err;
}

// --- the rest ---

static json_t *list_ranks(const struct results *results) {
  json_t *list = json_array();
  const struct results_phase *first = results->num_phases > 0 ? &results->phases[0] : NULL;
  for (uint32_t i = 0; list && first && i < first->num_ranks; i++)
    json_array_append_new(list, json_integer(first->ranks[i].rank));
  return list;
}

static json_t *moment(double seconds) {
  return seconds >= 0 ? json_real(digits_rounded(seconds)) : json_null();
}

static json_t *list_phases(const struct results *results) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < results->num_phases; i++) {
    const struct results_phase *phase = &results->phases[i];
    json_array_append_new(list,
                          json_pack("{s:i, s:b, s:f, s:o, s:o}", "index", (int)phase->index, "passed",
                                    results_phase_passed(phase), "gbps", digits_rounded(results_phase_gbps(phase)),
                                    "begin_s", moment(phase->begin_s), "end_s", moment(phase->end_s)));
  }
  return list;
}

static json_t *list_names(const char *const *names, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < count; i++)
    json_array_append_new(list, json_string(names[i]));
  return list;
}

static json_t *list_states(void) {
  const char *names[RESULTS_NUM_STATES];
  for (int i = 0; i < RESULTS_NUM_STATES; i++)
    names[i] = results_state_name((enum results_state)i);
  return list_names(names, RESULTS_NUM_STATES);
}

// A list of objects that have the same members, as {"columns": their names, "rows": their values}: this saves room,
// since names are longer than numbers.
static json_t *tabulate(const json_t *list) {
  json_t *names = json_array(), *rows = json_array(), *object, *value;
  const char *name;
  size_t i;
  json_object_foreach(json_array_get(list, 0), name, value) json_array_append_new(names, json_string(name));
  json_array_foreach(list, i, object) {
    json_t *row = json_array();
    json_object_foreach(object, name, value) json_array_append(row, value);
    json_array_append_new(rows, row);
  }
  return json_pack("{s:o, s:o}", "columns", names, "rows", rows);
}

// Takes the results without their long lists, which are separate members of the document.
static json_t *take_head(const struct results *results, json_t **transitions) {
  struct results head = *results;
  head.phases = NULL;
  head.num_phases = 0;
  json_t *json = results_to_json(&head);
  *transitions = json ? tabulate(json_object_get(json, "transitions")) : NULL;
  json_object_del(json, "phases");
  json_object_del(json, "transitions");
  json_object_del(json, "plan");
  return json;
}

json_t *page_run_document(const struct results *results) {
  struct lists lists = {json_array(), json_array(), json_array()};
  uint32_t num_ranks = results->num_phases > 0 ? results->phases[0].num_ranks : 0;
  int err = 0;
  for (uint32_t i = 0; i < num_ranks && !err; i++)
    err = add_rank(&lists, results, i);
  json_t *document = NULL, *transitions = NULL;
  json_t *head = err ? NULL : take_head(results, &transitions);
  if (head)
    document =
        json_pack("{s:s, s:O, s:o, s:o, s:O, s:O, s:O, s:o, s:o, s:o, s:o}", "page", "run", "head", head, "transitions",
                  transitions, "phases", list_phases(results), "hosts", lists.hosts, "reasons", lists.reasons, "cells",
                  lists.cells, "ranks", list_ranks(results), "states", list_states(), "columns",
                  list_names(columns, sizeof columns / sizeof *columns), "traffic", page_matrices(results));
  json_decref(head);
  json_decref(lists.hosts);
  json_decref(lists.reasons);
  json_decref(lists.cells);
  return document;
}
