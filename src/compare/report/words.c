// Numbers, summaries and notes in words.
#include "compare/report/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/text/text.h"

char *words_key(const json_t *keys, const char *key) {
  const json_t *value = json_object_get(keys, key);
  char *text = !value                  ? strdup("")
               : json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  if (text)
    printable_line(text);
  return text;
}

static bool differs(const struct comparison *comparison, const char *key) {
  const json_t *first = json_object_get(comparison->lines[0].keys, key);
  for (size_t i = 1; i < comparison->num_lines; i++) {
    const json_t *value = json_object_get(comparison->lines[i].keys, key);
    if (value != first && !json_equal(value, first))
      return true;
  }
  return false;
}

json_t *words_columns(const struct comparison *comparison) {
  static const char *const usual[] = {"op",   "step", "pattern", "phase", "tokens",
                                      "rank", "from", "to",      "bytes", "batch"};
  json_t *columns = json_array(), *seen = json_object(), *value;
  const char *key;
  for (size_t i = 0; seen && i < sizeof usual / sizeof *usual; i++)
    if (differs(comparison, usual[i])) {
      json_array_append_new(columns, json_string(usual[i]));
      json_object_set_new(seen, usual[i], json_true());
    }
  for (size_t i = 0; seen && i < comparison->num_lines; i++)
    json_object_foreach(comparison->lines[i].keys, key, value) {
      if (json_object_get(seen, key))
        continue;
      json_object_set_new(seen, key, json_true());
      if (differs(comparison, key))
        json_array_append_new(columns, json_string(key));
    }
  if (columns && json_array_size(columns) == 0 && json_object_size(seen) > 0) // a single row
    json_array_append_new(columns, json_string(json_object_iter_key(json_object_iter(seen))));
  json_decref(seen);
  return columns;
}

const char *words_number(double value, char out[WORDS_CELL]) {
  int digits = value > 0 ? (int)floor(log10(value)) + 1 : 4, behind = 4 - digits; // 0 has no decimals
  behind = behind < 0 ? 0 : behind > 6 ? 6 : behind;
  snprintf(out, WORDS_CELL, "%.*f", behind, value);
  return out;
}

// Uses just enough digits to show a small change.
static int digits_of(double percent) {
  return fabs(percent) < 9.95 ? 1 : 0;
}

const char *words_change(const struct compare_line *line, char out[WORDS_CELL]) {
  double percent = 100 * line->change.ratio;
  if (line->change.has_ratio)
    snprintf(out, WORDS_CELL, "%+.*f %%", digits_of(percent), percent == 0 ? 0.0 : percent);
  else
    snprintf(out, WORDS_CELL, "%s zero", line->change.baseline == 0 ? "from" : "to");
  return out;
}

// With two repeats that are far apart nearly every change is possible; larger numbers than this mean nothing.
#define WIDE 1000

const char *words_interval(const struct compare_line *line, char out[WORDS_CELL]) {
  double low = 100 * line->change.low, high = 100 * line->change.high;
  *out = '\0';
  if (line->change.basis != CHANGE_NOTHING && low < WIDE && high > WIDE)
    snprintf(out, WORDS_CELL, "%+.*f to over %+d %%", digits_of(low), low, WIDE);
  else if (line->change.basis != CHANGE_NOTHING)
    snprintf(out, WORDS_CELL, "%+.*f to %+.*f %%", digits_of(low), low, digits_of(high), high);
  return out;
}

char *words_summary(const struct comparison *comparison) {
  static const enum compare_verdict order[] = {COMPARE_WORSE, COMPARE_BETTER, COMPARE_SAME, COMPARE_UNKNOWN};
  static const char *const words[] = {"worse", "better", "same", "without an interval"};
  struct text text = {0};
  text_add(&text, "%zu figure%s compared:", comparison->num_lines, text_s(comparison->num_lines));
  bool first = true;
  for (size_t i = 0; i < 4; i++)
    if (comparison->counts[order[i]] > 0) {
      text_add(&text, "%s %zu %s", first ? "" : ",", comparison->counts[order[i]], words[i]);
      first = false;
    }
  if (comparison->options->limit >= 0)
    text_add(&text, "; %zu worse by more than %g %%", comparison->beyond, comparison->options->limit);
  return text_take(&text);
}

static size_t count_basis(const struct comparison *comparison, enum change_basis basis) {
  size_t count = 0;
  for (size_t i = 0; i < comparison->num_lines; i++)
    count += comparison->lines[i].change.basis == basis;
  return count;
}

static void note_method(struct text *text, const struct comparison *comparison) {
  const struct compare_options *options = comparison->options;
  text_add(text,
           "Intervals are at 95 %%, by bootstrap (%zu draws, seed %llu). A change is called better or worse if its "
           "interval does not contain 0, if the rate of false changes over all rows is below 5 %% "
           "(Benjamini-Hochberg), and if it is at least %g %%.\n",
           options->resamples, (unsigned long long)options->seed, options->floor);
  if (count_basis(comparison, CHANGE_ITERATIONS) > 0)
    text_add(text, "If there is only one run on each side, an interval shows how much its iterations differ, not how "
                   "much runs differ: repeat the runs to know that.\n");
  if (count_basis(comparison, CHANGE_PAIRS) > 0)
    text_add(text, "The repeats took turns, and are compared pair by pair.\n");
  size_t unknown = comparison->counts[COMPARE_UNKNOWN];
  if (unknown > 0)
    text_add(
        text,
        "%zu figure%s %s no interval, because it is not known how the values vary, or because one of them is 0: no "
        "limit is applied to the change. Give several runs of each.\n",
        unknown, text_s(unknown), unknown == 1 ? "has" : "have");
}

static void add_names(struct text *text, const char *label, const char *what, json_t *names) {
  enum { MOST = 4 };
  const char *name;
  json_t *value;
  size_t count = 0;
  text_add(text, "%s%s", label, what);
  json_object_foreach(names, name, value) {
    char line[64];
    snprintf(line, sizeof line, "%.60s", name);
    printable_line(line);
    if (count++ < MOST)
      text_add(text, "%s%s", count > 1 ? ", " : "", line);
  }
  if (count > MOST)
    text_add(text, " and %zu more", count - MOST);
}

// Notes differences between the runs that may have caused a change, as far as they are known for both.
static void note_other(struct text *text, const struct comparison *comparison, const struct compare_run *run) {
  const struct compare_run *first = &comparison->runs[0];
  const struct {
    const char *what;
    json_t *before, *after;
  } facts[] = {{" ran on ", first->hosts, run->hosts}, {" was made by weft ", first->versions, run->versions}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    if (!facts[i].before || !facts[i].after || json_equal(facts[i].before, facts[i].after))
      continue;
    add_names(text, first->label, facts[i].what, facts[i].before);
    text_add(text, ", and ");
    add_names(text, run->label, i == 0 ? " on " : " by ", facts[i].after);
    text_add(text, ".\n");
  }
}

static void note_alone(struct text *text, json_t *figures) {
  const char *name, *before = "Not compared, since only one run has it in the same row: ";
  json_t *value;
  json_object_foreach(figures, name, value) {
    text_add(text, "%s%s", before, name);
    before = ", ";
  }
  if (json_object_size(figures) > 0)
    text_add(text, ".\n");
}

static void note_runs(struct text *text, const struct comparison *comparison) {
  size_t index;
  json_t *key;
  struct text dropped = {0};
  json_array_foreach(comparison->dropped, index, key)
      text_add(&dropped, "%s%s", dropped.size ? ", " : "", json_string_value(key));
  if (dropped.size > 0)
    text_add(text, "Not used to find the same row, since only one run has it: %s.\n", dropped.data);
  text_free(&dropped);
  note_alone(text, comparison->alone);
  for (size_t i = 1; i < comparison->num_runs; i++)
    note_other(text, comparison, &comparison->runs[i]);
  for (size_t i = 0; i < comparison->num_runs; i++)
    if (*comparison->runs[i].remark)
      text_add(text, "%s: %s\n", comparison->runs[i].label, comparison->runs[i].remark);
  for (size_t i = 0; i < comparison->num_runs; i++)
    if (comparison->runs[i].left_out > 0)
      text_add(text, "%s: %u row%s left out, because the benchmark itself refused %s: %s\n", comparison->runs[i].label,
               comparison->runs[i].left_out, text_s(comparison->runs[i].left_out),
               comparison->runs[i].left_out == 1 ? "it" : "them", comparison->runs[i].why_left);
  for (size_t i = 0; i < comparison->num_runs; i++)
    if (comparison->runs[i].without_rates > 0)
      text_add(text, "%s: the rates of %u row%s are left out, because the benchmark itself refused them: %s\n",
               comparison->runs[i].label, comparison->runs[i].without_rates, text_s(comparison->runs[i].without_rates),
               comparison->runs[i].why_without);
}

char *words_notes(const struct comparison *comparison) {
  struct text text = {0};
  note_method(&text, comparison);
  note_runs(&text, comparison);
  return text_take(&text);
}
