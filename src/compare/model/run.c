// Rows, figures and repeats of a run.
#include "compare/model/run.h"

#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/printable.h"

static int no_memory(void) {
  return fail(WEFT_ERR_NOMEM, "no memory for the runs to compare");
}

static void free_row(struct compare_row *row) {
  for (size_t i = 0; i < row->num_series; i++) {
    for (size_t k = 0; k < row->series[i].num_repeats; k++)
      free(row->series[i].repeats[k].samples);
    free(row->series[i].repeats);
  }
  free(row->series);
  json_decref(row->keys);
}

void compare_run_free(struct compare_run *run) {
  for (size_t i = 0; i < run->num_rows; i++)
    free_row(&run->rows[i]);
  free(run->rows);
  free(run->path);
  free(run->started);
  json_decref(run->index);
  json_decref(run->hosts);
  json_decref(run->versions);
  *run = (struct compare_run){0};
}

char *compare_keys_text(const json_t *keys) {
  char *text = json_dumps(keys, JSON_COMPACT | JSON_SORT_KEYS);
  if (!text)
    no_memory();
  return text;
}

// Returns one more zeroed item at the end of the list, whose room doubles when it is full; NULL: memory ran out.
static void *grow(void **list, size_t *count, size_t size) {
  if ((*count & (*count - 1)) == 0) { // 0, 1, 2, 4, ...: full
    void *longer = realloc(*list, (*count ? 2 * *count : 1) * size);
    if (!longer) {
      no_memory();
      return NULL;
    }
    *list = longer;
  }
  return memset((char *)*list + (*count)++ * size, 0, size);
}

struct compare_row *compare_run_row(struct compare_run *run, json_t *keys) {
  char *text = keys ? compare_keys_text(keys) : NULL;
  if (!run->index)
    run->index = json_object();
  const json_t *place = text ? json_object_get(run->index, text) : NULL;
  struct compare_row *row = NULL;
  if (place)
    row = &run->rows[json_integer_value(place)];
  else if (text && json_object_set_new(run->index, text, json_integer((json_int_t)run->num_rows)) == 0)
    row = grow((void **)&run->rows, &run->num_rows, sizeof *run->rows);
  if (row && !row->keys)
    row->keys = json_incref(keys);
  free(text);
  json_decref(keys);
  if (!row)
    no_memory();
  return row;
}

int compare_run_repeats(struct compare_run *run, uint32_t count, uint64_t started) {
  if (count <= run->num_repeats)
    return 0;
  uint64_t *longer = realloc(run->started, count * sizeof *longer);
  if (!longer)
    return no_memory();
  run->started = longer;
  while (run->num_repeats < count)
    run->started[run->num_repeats++] = started;
  return 0;
}

static int add_name(json_t **names, const char *name) {
  if (!name || !*name)
    return 0;
  if (!*names)
    *names = json_object();
  return json_object_set_new(*names, name, json_true()) == 0 ? 0 : no_memory();
}

int compare_run_made(struct compare_run *run, const json_t *hosts, const char *version) {
  int err = add_name(&run->versions, version);
  for (size_t i = 0; !err && i < json_array_size(hosts); i++)
    err = add_name(&run->hosts, json_string_value(json_array_get(hosts, i)));
  return err;
}

json_t *compare_run_names(const json_t *names) {
  json_t *list = json_array(), *value;
  const char *name;
  json_object_foreach((json_t *)names, name, value) json_array_append_new(list, json_string(name));
  if (list && json_array_size(list) == json_object_size(names))
    return list;
  json_decref(list);
  no_memory();
  return NULL;
}

const struct compare_series *compare_row_find(const struct compare_row *row, const char *name) {
  for (size_t i = 0; i < row->num_series; i++)
    if (strcmp(row->series[i].name, name) == 0)
      return &row->series[i];
  return NULL;
}

double compare_series_mean(const struct compare_series *series) {
  double sum = 0;
  for (size_t i = 0; i < series->num_repeats; i++)
    sum += series->repeats[i].value;
  return sum / (double)series->num_repeats;
}

static bool is_right(double value) {
  return value >= 0 && value <= COMPARE_MOST; // false for NaN, too
}

static int check(const struct compare_figure *figure) {
  static const char want[] = "want a finite number from 0 to 1e15";
  if (!is_right(figure->value))
    return fail(WEFT_ERR_PROTOCOL, "%s is %g: %s", figure->name, figure->value, want);
  if (figure->error >= 0 && !is_right(figure->error))
    return fail(WEFT_ERR_PROTOCOL, "the error of %s is %g: %s", figure->name, figure->error, want);
  for (size_t i = 0; i < figure->num_samples; i++)
    if (!is_right(figure->samples[i]))
      return fail(WEFT_ERR_PROTOCOL, "sample %zu of %s is %g: %s", i, figure->name, figure->samples[i], want);
  return 0;
}

static struct compare_series *series_of(struct compare_row *row, const struct compare_figure *figure) {
  struct compare_series *series = (struct compare_series *)compare_row_find(row, figure->name);
  if (!series) {
    series = grow((void **)&row->series, &row->num_series, sizeof *row->series);
    if (!series)
      return NULL;
    snprintf(series->name, sizeof series->name, "%s", figure->name);
    snprintf(series->unit, sizeof series->unit, "%s", figure->unit);
    printable_line(series->name); // the texts may have been cut within a character
    printable_line(series->unit);
    series->higher = figure->higher;
    series->detail = figure->detail;
  }
  if (strcmp(series->unit, figure->unit) == 0 && series->higher == figure->higher)
    return series;
  fail(WEFT_ERR_PROTOCOL, "%s is in %s, %s is better, in one repeat and in %s, %s is better, in another", figure->name,
       series->unit, series->higher ? "higher" : "lower", figure->unit, figure->higher ? "higher" : "lower");
  return NULL;
}

int compare_row_add(struct compare_run *run, struct compare_row *row, uint32_t repeat,
                    const struct compare_figure *figure) {
  int err = check(figure);
  struct compare_series *series = err ? NULL : series_of(row, figure);
  if (!err && !series)
    err = WEFT_ERR_PROTOCOL;
  // Repeats have rising indexes. If a text has an index twice, the later repeat gets the next index.
  if (!err && series->num_repeats > 0 && series->repeats[series->num_repeats - 1].index >= repeat)
    repeat = series->repeats[series->num_repeats - 1].index + 1;
  if (!err)
    err = compare_run_repeats(run, repeat + 1, 0);
  struct compare_repeat *one = err ? NULL : grow((void **)&series->repeats, &series->num_repeats, sizeof *one);
  if (!one) {
    free(figure->samples);
    return err ? err : WEFT_ERR_NOMEM;
  }
  *one = (struct compare_repeat){.index = repeat,
                                 .value = figure->value,
                                 .percentile = figure->percentile,
                                 .error = figure->error,
                                 .count = figure->count,
                                 .num_samples = figure->num_samples,
                                 .samples = figure->samples};
  return 0;
}
