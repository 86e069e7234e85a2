// Writes figures for a node exporter. prometheus_results.c uses some of these functions, too.
#include "measure/prometheus.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "measure/whole_file.h"

// --- text ---

int prometheus_hand_out(FILE *out, struct text *text) {
  int err = text->failed ? fail(WEFT_ERR_NOMEM, "no memory for the figures of a node exporter") : 0;
  if (!err && text->size > 0 && fwrite(text->data, 1, text->size, out) != text->size)
    err = fail_errno(errno, "the figures for a node exporter cannot be written");
  text_free(text);
  return err;
}

// Adds a label. Its value is made valid UTF-8, since a collector rejects a file with any other value.
void prometheus_label(struct text *labels, const char *name, const char *value) {
  char *copy = strdup(value);
  if (!copy) {
    labels->failed = true;
    return;
  }
  printable_line(copy);
  if (labels->size > 0)
    text_add(labels, ",");
  metrics_put_label(labels, name, copy);
  free(copy);
}

// --- figures ---

// Units of figures: the suffix for Prometheus, and the factor to its base unit.
static const struct unit {
  const char *name, *suffix;
  double factor;
} units[] = {
    {"us", "_seconds", 1e-6}, {"GB/s", "_bytes_per_second", 1e9}, {"1/s", "_per_second", 1},
    {"bytes", "_bytes", 1},   {"percent", "_ratio", 0.01},
};

static const struct unit *unit_of(const struct figure *figure) {
  static const struct unit other = {"", "", 1};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(units[i].name, figure->unit) == 0)
      return &units[i];
  return &other;
}

// Adds a name. Other characters than letters, digits and underscores become underscores.
static void add_name(struct text *text, const char *name) {
  for (; *name; name++)
    text_add(text, "%c", isalnum((unsigned char)*name) ? *name : '_');
}

// Labels that this file adds itself. A key with one of these names gets the prefix "key_".
static bool is_ours(const char *name) {
  static const char *const ours[] = {"kind", "repeat", "quantile", "bound", "row"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (strcmp(ours[i], name) == 0)
      return true;
  return false;
}

static void add_key(struct text *labels, const char *key, const json_t *value) {
  struct text name = {0};
  char number[32];
  if (is_ours(key) || !isalpha((unsigned char)*key))
    text_add(&name, "key_");
  add_name(&name, key);
  snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  if (json_is_string(value))
    prometheus_label(labels, name.data, json_string_value(value));
  else if (json_is_integer(value))
    prometheus_label(labels, name.data, number);
  else if (json_is_boolean(value))
    prometheus_label(labels, name.data, json_is_true(value) ? "true" : "false");
  labels->failed |= name.failed;
  text_free(&name);
}

// The labels of every row. A collector rejects a whole file in which a series appears twice, so a row with the labels
// of an earlier row gets its number as a further label.
static char **label_rows(const struct figures *figures) {
  char **all = calloc(figures->num_rows + 1, sizeof *all), number[16];
  json_t *seen = json_object();
  for (uint32_t r = 0; all && r < figures->num_rows; r++) {
    const struct figures_row *row = &figures->rows[r];
    struct text labels = {0};
    const char *key;
    json_t *value;
    prometheus_label(&labels, "kind", figures->kind);
    json_object_foreach(row->keys, key, value) add_key(&labels, key, value);
    snprintf(number, sizeof number, "%u", row->run);
    prometheus_label(&labels, "repeat", number);
    snprintf(number, sizeof number, "%u", r);
    if (labels.data && json_object_get(seen, labels.data))
      prometheus_label(&labels, "row", number);
    else if (labels.data)
      json_object_set_new(seen, labels.data, json_true());
    if (!labels.failed)
      all[r] = text_take(&labels);
    text_free(&labels);
  }
  json_decref(seen);
  return all;
}

static void put_quantiles(struct text *text, const char *name, const char *labels, const struct figure *figure) {
  const struct {
    const char *quantile;
    double value;
  } rows[] = {{"0", figure->min},    {"0.5", figure->p50},    {"0.95", figure->p95},
              {"0.99", figure->p99}, {"0.999", figure->p999}, {"1", figure->max}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct text with = {0};
    text_add(&with, "%s", labels);
    prometheus_label(&with, "quantile", rows[i].quantile);
    if (rows[i].value >= 0 && with.data)
      metrics_put_gauge(text, name, with.data, rows[i].value * unit_of(figure)->factor);
    text->failed |= with.failed;
    text_free(&with);
  }
}

enum part { PART_VALUE, PART_QUANTILES, PART_BOUND, NUM_PARTS };
static const char *const part_words[NUM_PARTS] = {"", "_quantile", "_bound"};

static void put_one(struct text *text, enum part part, const char *name, const char *labels,
                    const struct figure *figure) {
  struct text with = {0};
  if (part == PART_VALUE)
    metrics_put_gauge(text, name, labels, figure->value * unit_of(figure)->factor);
  else if (part == PART_QUANTILES && figure->count > 0)
    put_quantiles(text, name, labels, figure);
  else if (part == PART_BOUND && figure->bound >= 0) {
    text_add(&with, "%s", labels);
    prometheus_label(&with, "bound", figure->bound_name);
    if (with.data)
      metrics_put_gauge(text, name, with.data, figure->bound * unit_of(figure)->factor);
    text->failed |= with.failed;
  }
  text_free(&with);
}

static bool has_part(const struct figure *figure, enum part part) {
  return part == PART_VALUE || (part == PART_QUANTILES ? figure->count > 0 : figure->bound >= 0);
}

static bool is_alike(const struct figure *one, const struct figure *other) {
  return strcmp(one->name, other->name) == 0 && strcmp(one->unit, other->unit) == 0;
}

// Whether an earlier row, or this row before `index`, has a figure of the same name and unit with this part.
static bool came_before(const struct figures *figures, uint32_t row, uint32_t index, enum part part) {
  const struct figure *figure = &figures->rows[row].figures[index];
  for (uint32_t r = 0; r <= row; r++)
    for (uint32_t f = 0; f < (r < row ? figures->rows[r].num_figures : index); f++)
      if (!*figures->rows[r].refused && is_alike(&figures->rows[r].figures[f], figure) &&
          has_part(&figures->rows[r].figures[f], part))
        return true;
  return false;
}

// Writes a family with all of its series. It begins at the first figure that belongs to it.
static void put_family(struct text *text, const struct figures *figures, char **labels, uint32_t first, uint32_t index,
                       enum part part) {
  const struct figure *figure = &figures->rows[first].figures[index];
  struct text name = {0};
  text_add(&name, "weft_bench_");
  add_name(&name, figure->name);
  text_add(&name, "%s%s", part_words[part], unit_of(figure)->suffix);
  static const char *const helps[NUM_PARTS] = {"A figure of a benchmark; for a distribution its mean.",
                                               "Percentiles of a figure of a benchmark; 0 is the least, 1 the most.",
                                               "The most that the hardware allows for a figure of a benchmark."};
  if (name.data)
    metrics_put_family(text, name.data, "gauge", "", helps[part]);
  for (uint32_t r = first; r < figures->num_rows && name.data; r++) {
    const struct figures_row *row = &figures->rows[r];
    for (uint32_t f = 0; f < row->num_figures && !*row->refused; f++)
      if (is_alike(&row->figures[f], figure)) {
        put_one(text, part, name.data, labels[r] ? labels[r] : "", &row->figures[f]);
        break; // a second figure of that name would be the same series
      }
    text->failed |= !labels[r];
  }
  text->failed |= name.failed;
  text_free(&name);
}

static int write_figures(FILE *out, const void *arg) {
  const struct figures *figures = arg;
  struct text text = {0};
  char **labels = label_rows(figures);
  text.failed = !labels;
  for (int part = 0; part < NUM_PARTS; part++)
    for (uint32_t r = 0; r < figures->num_rows && labels; r++)
      for (uint32_t f = 0; f < figures->rows[r].num_figures && !*figures->rows[r].refused; f++)
        if (has_part(&figures->rows[r].figures[f], (enum part)part) && !came_before(figures, r, f, (enum part)part))
          put_family(&text, figures, labels, r, f, (enum part)part);
  struct text kind = {0};
  prometheus_label(&kind, "kind", figures->kind);
  metrics_put_family(&text, "weft_bench_passed", "gauge", "", "1 if the benchmark was complete, and nothing failed.");
  metrics_put_gauge(&text, "weft_bench_passed", kind.data ? kind.data : "", figures->passed && figures->complete);
  metrics_put_family(&text, "weft_bench_elapsed_seconds", "gauge", "", "Duration of the benchmark.");
  metrics_put_gauge(&text, "weft_bench_elapsed_seconds", kind.data ? kind.data : "", figures->elapsed_s);
  text_free(&kind);
  for (uint32_t r = 0; labels && r < figures->num_rows; r++)
    free(labels[r]);
  free(labels);
  return prometheus_hand_out(out, &text);
}

int figures_save_prometheus(const char *path, const struct figures *figures) {
  return whole_file_save(path, write_figures, figures);
}
