// CSV (RFC 4180). The columns are the keys and figures of the first row, and further keys and times that later rows may
// have.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/csv.h"
#include "base/text/digits.h"
#include "bench/common/output_files.h"
#include "bench/common/output_table.h"

static int fail_to_write(const struct bench_output *output) {
  bool out = strcmp(output->csv, "-") == 0;
  return fail_errno(errno, "cannot write %s", out ? "the CSV to standard output" : output->csv);
}

int bench_output_csv_open(struct bench_output *output) {
  output->csv_file = strcmp(output->csv, "-") == 0 ? stdout : fopen(output->csv, "we");
  return output->csv_file ? 0 : fail_to_write(output);
}

static bool is_distribution(const struct figure *figure) {
  return figure->count > 0;
}

static const char *const parts[] = {"mean", "min", "p50", "p95", "p99", "p999", "max"};
enum { PARTS = sizeof parts / sizeof *parts };

static void name_distribution(FILE *out, const char *name, const char *unit) {
  for (int part = 0; part < PARTS; part++)
    fprintf(out, ",%s_%s_%s", name, unit, parts[part]);
}

static void write_head(const struct bench_output *output, const struct figures_row *row) {
  FILE *out = output->csv_file;
  const char *key;
  json_t *value;
  fputs("run", out);
  json_object_foreach(json_object_get(output->csv_keys, "keys"), key, value) {
    fputc(',', out);
    csv_write_text(out, key);
  }
  for (uint32_t i = 0; i < row->num_figures; i++) {
    const struct figure *figure = &row->figures[i];
    if (!is_distribution(figure))
      fprintf(out, ",%s_%s", figure->name, figure->unit);
    else
      name_distribution(out, figure->name, figure->unit);
    fprintf(out, ",%s_bound", figure->name);
  }
  for (size_t i = 0; output->more_times && output->more_times[i]; i++)
    if (!figures_find(row, output->more_times[i])) {
      name_distribution(out, output->more_times[i], "us");
      fprintf(out, ",%s_bound", output->more_times[i]);
    }
  fputs(",slowest,refused\n", out);
}

// Later rows are written in the columns of the first row: keeps a copy of its keys, and the names of its figures.
static json_t *remember(const struct bench_output *output, const struct figures_row *row) {
  json_t *figures = json_array(), *keys = json_copy(row->keys);
  for (size_t i = 0; output->more_keys && output->more_keys[i]; i++)
    json_object_set_new(keys, output->more_keys[i], json_null());
  for (uint32_t i = 0; i < row->num_figures; i++)
    json_array_append_new(figures, json_pack("{s:s, s:b}", "name", row->figures[i].name, "distribution",
                                             is_distribution(&row->figures[i])));
  for (size_t i = 0; output->more_times && output->more_times[i]; i++)
    if (!figures_find(row, output->more_times[i]))
      json_array_append_new(figures, json_pack("{s:s, s:b}", "name", output->more_times[i], "distribution", true));
  return json_pack("{s:o, s:o}", "keys", keys, "figures", figures);
}

static void write_number(FILE *out, bool known, double number) {
  if (known && !isnan(number))
    fprintf(out, ",%.*g", DIGITS_IN_JSON, digits_rounded(number));
  else
    fputc(',', out);
}

static void write_figure(FILE *out, const struct figure *figure, bool distribution) {
  const double numbers[PARTS] = {figure ? figure->value : 0, figure ? figure->min : 0, figure ? figure->p50 : 0,
                                 figure ? figure->p95 : 0,   figure ? figure->p99 : 0, figure ? figure->p999 : 0,
                                 figure ? figure->max : 0};
  for (int part = 0; part < (distribution ? PARTS : 1); part++)
    write_number(out, figure && (part == 0 || is_distribution(figure)), numbers[part]);
  write_number(out, figure && figure->bound > 0, figure ? figure->bound : 0);
}

int bench_output_csv_row(struct bench_output *output, const struct figures_row *row) {
  FILE *out = output->csv_file;
  const char *key;
  json_t *value, *figure;
  size_t index;
  if (!output->csv_keys) {
    output->csv_keys = remember(output, row);
    if (output->csv_keys)
      write_head(output, row);
  }
  if (!output->csv_keys)
    return fail(WEFT_ERR_NOMEM, "no memory for the columns of %s", output->csv);
  fprintf(out, "%u", row->run);
  json_object_foreach(json_object_get(output->csv_keys, "keys"), key, value) {
    char text[FIGURES_TEXT];
    bench_output_value(json_object_get(row->keys, key), text, sizeof text);
    fputc(',', out);
    csv_write_text(out, text);
  }
  json_array_foreach(json_object_get(output->csv_keys, "figures"), index, figure)
      write_figure(out, figures_find(row, json_string_value(json_object_get(figure, "name"))),
                   json_is_true(json_object_get(figure, "distribution")));
  fputc(',', out);
  csv_write_text(out, row->slowest);
  fputc(',', out);
  csv_write_text(out, row->refused);
  fputc('\n', out);
  return fflush(out) != 0 ? fail_to_write(output) : 0;
}

int bench_output_csv_close(struct bench_output *output) {
  int err = 0;
  json_decref(output->csv_keys);
  output->csv_keys = NULL;
  if (output->csv_file && output->csv_file != stdout && fclose(output->csv_file) != 0)
    err = fail_to_write(output);
  output->csv_file = NULL;
  return err;
}
