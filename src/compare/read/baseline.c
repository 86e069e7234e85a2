// Writes and reads baselines.
#include "compare/read/baseline.h"

#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "compare/read/read.h"
#include "compare/statistics/resample.h"

enum { FORMAT = 1, MOST_REPEATS = 10000 };

// --- writing ---

static json_t *series_json(const struct compare_series *series) {
  json_t *repeats = json_array();
  for (size_t i = 0; i < series->num_repeats; i++) {
    const struct compare_repeat *one = &series->repeats[i];
    double error = resample_error(one);
    json_array_append_new(repeats, json_pack("{s:i, s:f, s:o, s:I}", "index", (int)one->index, "value",
                                             digits_rounded(one->value), "error",
                                             error < 0 ? json_null() : json_real(digits_rounded(error)), "count",
                                             (json_int_t)one->count));
  }
  return json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", series->name, "unit", series->unit, "better",
                   series->higher ? "higher" : "lower", "detail", series->detail, "repeats", repeats);
}

static json_t *row_json(const struct compare_row *row) {
  json_t *figures = json_array();
  for (size_t i = 0; i < row->num_series; i++)
    json_array_append_new(figures, series_json(&row->series[i]));
  return json_pack("{s:O, s:o}", "keys", row->keys, "figures", figures);
}

json_t *compare_baseline_json(const struct compare_run *run) {
  json_t *rows = json_array(), *started = json_array();
  for (size_t i = 0; i < run->num_rows; i++)
    json_array_append_new(rows, row_json(&run->rows[i]));
  for (uint32_t i = 0; i < run->num_repeats; i++)
    json_array_append_new(started, json_integer((json_int_t)run->started[i]));
  json_t *json =
      json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "weft_baseline", FORMAT, "version", weft_version(),
                "format", run->format, "remark", run->remark, "hosts", compare_run_names(run->hosts), "versions",
                compare_run_names(run->versions), "started", started, "rows", rows);
  bool whole = json && json_array_size(json_object_get(json, "rows")) == run->num_rows;
  if (whole)
    return json;
  json_decref(json);
  fail(WEFT_ERR_NOMEM, "no memory for the baseline");
  return NULL;
}

// --- reading ---

static bool is_baseline(const struct compare_text *text) {
  return json_object_get(text->json, "weft_baseline") != NULL;
}

static int read_repeat(struct compare_run *run, struct compare_row *row, struct compare_figure *figure,
                       const json_t *json, uint32_t base) {
  const json_t *value = json_object_get(json, "value"), *error = json_object_get(json, "error");
  json_int_t index = json_integer_value(json_object_get(json, "index"));
  json_int_t count = json_integer_value(json_object_get(json, "count"));
  if (!json_is_number(value) || index < 0 || index >= MOST_REPEATS || count < 0)
    return fail(WEFT_ERR_PROTOCOL, "a repeat of %s: want index, value and count from 0 on", figure->name);
  figure->value = json_number_value(value);
  figure->error = json_is_number(error) ? json_number_value(error) : -1;
  figure->count = (uint64_t)count;
  return compare_row_add(run, row, base + (uint32_t)index, figure);
}

static int read_series(struct compare_run *run, struct compare_row *row, const json_t *json, uint32_t base) {
  const char *name = json_string_value(json_object_get(json, "name"));
  const char *unit = json_string_value(json_object_get(json, "unit"));
  const char *better = json_string_value(json_object_get(json, "better"));
  const json_t *repeats = json_object_get(json, "repeats"), *repeat;
  if (!name || !unit || !better || !json_is_array(repeats))
    return fail(WEFT_ERR_PROTOCOL, "a figure: want its name, unit, better and repeats");
  struct compare_figure figure = {.name = name,
                                  .unit = unit,
                                  .higher = strcmp(better, "higher") == 0,
                                  .detail = json_is_true(json_object_get(json, "detail"))};
  int err = 0;
  for (size_t i = 0; !err && (repeat = json_array_get(repeats, i)); i++)
    err = read_repeat(run, row, &figure, repeat, base);
  return err;
}

static int read_row(struct compare_run *run, const json_t *json, uint32_t base) {
  json_t *keys = json_object_get(json, "keys");
  const json_t *figures = json_object_get(json, "figures"), *figure;
  if (!json_is_object(keys) || !json_is_array(figures))
    return fail(WEFT_ERR_PROTOCOL, "want an object of keys and a list of figures");
  struct compare_row *row = compare_run_row(run, json_incref(keys));
  int err = row ? 0 : WEFT_ERR_NOMEM;
  for (size_t i = 0; !err && (figure = json_array_get(figures, i)); i++)
    err = read_series(run, row, figure, base);
  return err;
}

static int read_baseline(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  const json_t *format = json_object_get(text->json, "weft_baseline"), *row, *at;
  const json_t *versions = json_object_get(text->json, "versions");
  const json_t *rows = json_object_get(text->json, "rows"), *started = json_object_get(text->json, "started");
  const char *remark = json_string_value(json_object_get(text->json, "remark")); // older versions write none
  if (!json_is_integer(format) || !json_is_array(rows))
    return fail(WEFT_ERR_PROTOCOL, "weft_baseline or rows: is missing or of another type");
  if (json_integer_value(format) != FORMAT)
    return fail(WEFT_ERR_VERSION,
                "weft_baseline: format %" JSON_INTEGER_FORMAT
                ", but this version reads format %d; make the baseline again with --save-baseline",
                json_integer_value(format), FORMAT);
  if (remark && *remark)
    snprintf(run->remark, sizeof run->remark, "%.255s", remark);
  int err = compare_run_made(run, json_object_get(text->json, "hosts"), NULL);
  for (size_t i = 0; !err && (at = json_array_get(versions, i)); i++)
    err = compare_run_made(run, NULL, json_string_value(at));
  for (size_t i = 0; !err && i < MOST_REPEATS && (at = json_array_get(started, i)); i++)
    err = compare_run_repeats(run, base + (uint32_t)i + 1, (uint64_t)json_integer_value(at));
  for (size_t i = 0; !err && (row = json_array_get(rows, i)); i++) {
    err = read_row(run, row, base);
    if (err)
      fail_context(err, "rows[%zu]", i);
  }
  return err;
}

const struct compare_reader compare_read_baseline = {
    .name = "weft baseline",
    .is = is_baseline,
    .read = read_baseline,
};
