// Estimates all changes, then judges them together.
#include "compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/text/text.h"
#include "compare/statistics/discoveries.h"

static const double false_rate = 0.05; // share of false discoveries among the changes that are called more than noise

const char *const compare_verdict_names[] = {
    [COMPARE_SAME] = "same", [COMPARE_BETTER] = "better", [COMPARE_WORSE] = "worse", [COMPARE_UNKNOWN] = "unknown"};

void compare_free(struct comparison *comparison) {
  for (size_t i = 0; i < comparison->num_lines; i++)
    json_decref(comparison->lines[i].keys);
  free(comparison->lines);
  json_decref(comparison->only_in);
  json_decref(comparison->dropped);
  json_decref(comparison->alone);
  *comparison = (struct comparison){0};
}

static bool is_wanted(const struct compare_options *options, const struct compare_series *series) {
  for (size_t i = 0; i < options->num_figures; i++)
    if (strcmp(options->figures[i], series->name) == 0)
      return true;
  return options->num_figures == 0 && (!series->detail || options->percentiles);
}

// Whether the repeats of both runs alternated by their begin times: A B A B or B A B A.
static bool took_turns(const struct compare_run *a, const struct compare_run *b) {
  if (a->num_repeats != b->num_repeats || a->num_repeats < 2)
    return false;
  for (uint32_t i = 0; i < a->num_repeats; i++) {
    if (a->started[i] == 0 || b->started[i] == 0)
      return false;
    uint64_t end_of_pair = a->started[i] > b->started[i] ? a->started[i] : b->started[i];
    if (i + 1 < a->num_repeats && (a->started[i + 1] <= end_of_pair || b->started[i + 1] <= end_of_pair))
      return false;
  }
  return true;
}

static bool are_paired(const struct compare_options *options, const struct compare_run *a,
                       const struct compare_run *b) {
  return options->pairing == COMPARE_PAIR_YES || (options->pairing == COMPARE_PAIR_AUTO && took_turns(a, b));
}

// FNV-1a (Fowler, Noll, Vo). The random numbers of a row depend on the seed, its keys and its figure, not on other
// rows.
static uint64_t seed_of(uint64_t seed, const json_t *keys, const char *figure) {
  uint64_t hash = 0xcbf29ce484222325U ^ random_mix(seed);
  char *text = compare_keys_text(keys);
  for (const char *c = text ? text : ""; *c; c++)
    hash = (hash ^ (unsigned char)*c) * 0x100000001b3U;
  for (const char *c = figure; *c; c++)
    hash = (hash ^ (unsigned char)*c) * 0x100000001b3U;
  free(text);
  return hash;
}

static size_t measurements(const struct compare_series *series) {
  const struct compare_repeat *one = &series->repeats[0];
  if (series->num_repeats > 1)
    return series->num_repeats;
  return one->num_samples > 0 ? one->num_samples : one->count > 0 && one->error >= 0 ? one->count : 1;
}

static int add_line(struct comparison *comparison, const struct match_pair *pair, const struct compare_series *a,
                    const struct compare_series *b, size_t run, bool paired) {
  const struct compare_options *options = comparison->options;
  if (strcmp(a->unit, b->unit) != 0 || a->higher != b->higher)
    return fail(WEFT_ERR_INVALID, "%s is in %s in one run and in %s in the other", a->name, a->unit, b->unit);
  struct compare_line line = {.figure = b->name,
                              .unit = b->unit,
                              .higher = b->higher,
                              .run = run,
                              .measurements = {measurements(a), measurements(b)}};
  struct change_options how = {
      .resamples = options->resamples, .seed = seed_of(options->seed, pair->keys, b->name), .paired = paired};
  int err = change_estimate(a, b, &how, &line.change);
  size_t count = comparison->num_lines;
  if (!err && (count & (count - 1)) == 0) { // 0, 1, 2, 4, ...: full
    struct compare_line *longer = realloc(comparison->lines, (count ? 2 * count : 1) * sizeof *longer);
    if (!longer)
      return fail(WEFT_ERR_NOMEM, "no memory to compare");
    comparison->lines = longer;
  }
  if (err)
    return err;
  line.keys = json_incref(pair->keys);
  comparison->lines[comparison->num_lines++] = line;
  return 0;
}

// Appends elements of `from` that are not in `list` already: with three runs the same element may occur twice.
static int add_new(json_t *list, const json_t *from) {
  json_t *seen = json_object(), *one;
  size_t index;
  bool whole = seen != NULL;
  for (int pass = 0; whole && pass < 2; pass++)
    json_array_foreach(pass == 0 ? list : from, index, one) {
      char *text = json_dumps(one, JSON_ENCODE_ANY | JSON_SORT_KEYS);
      bool is_new = text && !json_object_get(seen, text);
      whole = whole && text && (pass == 0 || !is_new || json_array_append(list, one) == 0) &&
              json_object_set_new(seen, text, json_true()) == 0;
      free(text);
    }
  json_decref(seen);
  return whole ? 0 : fail(WEFT_ERR_NOMEM, "no memory to compare");
}

// Keeps the names of the figures of a row that the other row does not have.
static int note_alone(struct comparison *comparison, const struct compare_row *row, const struct compare_row *other) {
  int failed = 0;
  for (size_t i = 0; i < row->num_series; i++)
    if (is_wanted(comparison->options, &row->series[i]) && !compare_row_find(other, row->series[i].name))
      failed |= json_object_set_new(comparison->alone, row->series[i].name, json_true());
  return failed ? fail(WEFT_ERR_NOMEM, "no memory to compare") : 0;
}

static int compare_rows(struct comparison *comparison, const struct match_pair *pair, size_t run, bool paired) {
  int err = note_alone(comparison, pair->baseline, pair->value);
  if (!err)
    err = note_alone(comparison, pair->value, pair->baseline);
  for (size_t i = 0; !err && i < pair->baseline->num_series; i++) {
    const struct compare_series *one = &pair->baseline->series[i];
    const struct compare_series *other = compare_row_find(pair->value, one->name);
    if (other && is_wanted(comparison->options, one))
      err = add_line(comparison, pair, one, other, run, paired);
  }
  return err;
}

static int compare_pair(struct comparison *comparison, size_t run) {
  struct match match = {0};
  const struct compare_run *a = &comparison->runs[0], *b = &comparison->runs[run];
  bool paired = are_paired(comparison->options, a, b);
  if (comparison->options->pairing == COMPARE_PAIR_YES && a->num_repeats != b->num_repeats)
    return fail(WEFT_ERR_INVALID, "%s has %u repeat%s but %s has %u: to compare pairs, both need the same number",
                a->label, a->num_repeats, text_s(a->num_repeats), b->label, b->num_repeats);
  int err = match_runs(a, b, &comparison->options->match, &match);
  for (size_t i = 0; !err && i < match.num_pairs; i++)
    err = compare_rows(comparison, &match.pairs[i], run, paired);
  if (!err)
    err = add_new(comparison->only_in, match.only_in);
  if (!err)
    err = add_new(comparison->dropped, match.dropped);
  match_free(&match);
  return err;
}

static void judge(struct comparison *comparison, struct compare_line *line) {
  const struct compare_options *options = comparison->options;
  const struct change *change = &line->change;
  bool sure = change->basis != CHANGE_NOTHING && (change->low > 0 || change->high < 0) && line->adjusted <= false_rate;
  double percent = 100 * change->ratio;
  if (!change->has_ratio || (change->basis == CHANGE_NOTHING && change->ratio != 0))
    line->verdict = COMPARE_UNKNOWN;
  else if (!sure || fabs(percent) < options->floor)
    line->verdict = COMPARE_SAME;
  else
    line->verdict = (percent > 0) == line->higher ? COMPARE_BETTER : COMPARE_WORSE;
  line->beyond = options->limit >= 0 && line->verdict == COMPARE_WORSE && fabs(percent) > options->limit;
  comparison->counts[line->verdict]++;
  comparison->beyond += line->beyond;
}

// Only rows with an interval are counted, since other rows cannot be false discoveries.
static int judge_all(struct comparison *comparison) {
  size_t count = 0, at = 0;
  double *chances = malloc(2 * (comparison->num_lines + 1) * sizeof *chances);
  if (!chances)
    return fail(WEFT_ERR_NOMEM, "no memory to compare");
  for (size_t i = 0; i < comparison->num_lines; i++)
    if (comparison->lines[i].change.basis != CHANGE_NOTHING)
      chances[count++] = comparison->lines[i].change.chance;
  double *adjusted = chances + comparison->num_lines + 1;
  int err = discoveries_adjust(chances, adjusted, count);
  for (size_t i = 0; !err && i < comparison->num_lines; i++) {
    struct compare_line *line = &comparison->lines[i];
    line->adjusted = line->change.basis != CHANGE_NOTHING ? adjusted[at++] : 1;
    judge(comparison, line);
  }
  free(chances);
  return err;
}

static int no_figure(const struct compare_run *runs, const struct compare_options *options) {
  struct text names = {0};
  json_t *seen = json_object();
  for (size_t i = 0; seen && i < runs[0].num_rows; i++)
    for (size_t k = 0; k < runs[0].rows[i].num_series; k++) {
      const char *name = runs[0].rows[i].series[k].name;
      if (!json_object_get(seen, name))
        text_add(&names, "%s%s", names.size ? ", " : "", name);
      json_object_set_new(seen, name, json_true());
    }
  int err =
      fail(WEFT_ERR_NOT_FOUND, "no figure %s%s that all runs have: %s has %s", options->num_figures ? "named " : "",
           options->num_figures ? options->figures[0] : "", runs[0].label, names.data ? names.data : "none");
  json_decref(seen);
  text_free(&names);
  return err;
}

int compare_runs(const struct compare_run *runs, size_t num_runs, const struct compare_options *options,
                 struct comparison *comparison) {
  struct comparison made = {.runs = runs,
                            .num_runs = num_runs,
                            .options = options,
                            .only_in = json_array(),
                            .dropped = json_array(),
                            .alone = json_object()};
  int err = made.only_in && made.dropped && made.alone ? 0 : fail(WEFT_ERR_NOMEM, "no memory to compare");
  for (size_t run = 1; !err && run < num_runs; run++)
    err = compare_pair(&made, run);
  if (!err && made.num_lines == 0)
    err = no_figure(runs, options);
  if (!err)
    err = judge_all(&made);
  if (err)
    compare_free(&made);
  else
    *comparison = made;
  return err;
}
