// Writes the comparison as a document for pages and programs.
#include <weft/weft.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "compare/compare.h"

enum { FORMAT = 1 };

static const char *const basis_names[] = {[CHANGE_NOTHING] = "none",
                                          [CHANGE_ITERATIONS] = "iterations",
                                          [CHANGE_REPEATS] = "repeats",
                                          [CHANGE_PAIRS] = "pairs",
                                          [CHANGE_EXACT] = "exact"};

static json_t *number(double value) {
  return json_real(digits_rounded(value));
}

static json_t *percent_if(bool known, double ratio) {
  return known ? number(100 * ratio) : json_null();
}

static json_t *run_json(const struct compare_run *run) {
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:o, s:o}", "label", run->label, "path",
                   run->path ? run->path : "", "format", run->format, "repeats", (int)run->num_repeats, "rows",
                   (int)run->num_rows, "left_out", (int)run->left_out, "remark", run->remark, "hosts",
                   compare_run_names(run->hosts), "versions", compare_run_names(run->versions));
}

static json_t *line_json(const struct comparison *comparison, const struct compare_line *line) {
  const struct change *change = &line->change;
  bool interval = change->basis != CHANGE_NOTHING;
  return json_pack("{s:O, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:s, s:b, s:s, s:[I, I]}", "keys",
                   line->keys, "figure", line->figure, "unit", line->unit, "better", line->higher ? "higher" : "lower",
                   "baseline", number(change->baseline), "value", number(change->value), "change_percent",
                   percent_if(change->has_ratio, change->ratio), "low_percent", percent_if(interval, change->low),
                   "high_percent", percent_if(interval, change->high), "interval_from", basis_names[change->basis],
                   "chance", interval ? number(change->chance) : json_null(), "adjusted_chance",
                   interval ? number(line->adjusted) : json_null(), "significant",
                   line->verdict == COMPARE_WORSE || line->verdict == COMPARE_BETTER, "verdict",
                   compare_verdict_names[line->verdict], "beyond_limit", line->beyond, "run",
                   comparison->runs[line->run].label, "samples", (json_int_t)line->measurements[0],
                   (json_int_t)line->measurements[1]);
}

// The verdict of the whole comparison: worse if any row is worse.
static const char *verdict_of(const struct comparison *comparison) {
  static const enum compare_verdict order[] = {COMPARE_WORSE, COMPARE_BETTER, COMPARE_SAME, COMPARE_UNKNOWN};
  for (size_t i = 0; i < 4; i++)
    if (comparison->counts[order[i]] > 0)
      return compare_verdict_names[order[i]];
  return compare_verdict_names[COMPARE_SAME];
}

json_t *compare_to_json(const struct comparison *comparison) {
  const struct compare_options *options = comparison->options;
  json_t *runs = json_array(), *rows = json_array();
  for (size_t i = 0; i < comparison->num_runs; i++)
    json_array_append_new(runs, run_json(&comparison->runs[i]));
  for (size_t i = 0; i < comparison->num_lines; i++)
    json_array_append_new(rows, line_json(comparison, &comparison->lines[i]));
  bool whole = json_array_size(runs) == comparison->num_runs && json_array_size(rows) == comparison->num_lines;
  json_t *json =
      json_pack("{s:i, s:s, s:o, s:i, s:s, s:f, s:f, s:i, s:I, s:o, s:o, s:O, s:O, s:o}", "weft_comparison", FORMAT,
                "version", weft_version(), "limit_percent", options->limit >= 0 ? number(options->limit) : json_null(),
                "beyond_limit", (int)comparison->beyond, "verdict", verdict_of(comparison), "floor_percent",
                options->floor, "confidence", 0.95, "resamples", (int)options->resamples, "seed",
                (json_int_t)options->seed, "runs", runs, "rows", rows, "only_in", comparison->only_in,
                "keys_not_matched", comparison->dropped, "figures_not_compared", compare_run_names(comparison->alone));
  if (json && whole)
    return json;
  json_decref(json);
  fail(WEFT_ERR_NOMEM, "no memory for JSON");
  return NULL;
}
