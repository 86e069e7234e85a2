// The table of rows, printed row by row.
#include "bench/common/output_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/text/table.h"

enum { MAX_COLUMNS = 48, NUMBER_WIDTH = 8, TEXT_WIDTH = 8, GAP = 2 };

void bench_output_value(const json_t *value, char *out, size_t cap) {
  if (json_is_string(value))
    snprintf(out, cap, "%s", json_string_value(value));
  else if (json_is_integer(value))
    snprintf(out, cap, "%lld", (long long)json_integer_value(value));
  else if (json_is_boolean(value))
    snprintf(out, cap, "%s", json_is_true(value) ? "yes" : "no");
  else if (json_is_real(value))
    snprintf(out, cap, "%g", json_real_value(value));
  else
    snprintf(out, cap, "%s", "");
  printable_line(out);
}

static struct bench_output_column *add(struct bench_output *output, const char *group, const char *heading,
                                       unsigned spare) {
  static struct bench_output_column none;
  if (output->num_columns == MAX_COLUMNS)
    return &none; // the table is too wide for it anyway
  struct bench_output_column *column = &output->table[output->num_columns++];
  snprintf(column->group, sizeof column->group, "%.23s", group);
  snprintf(column->heading, sizeof column->heading, "%.23s", heading);
  column->spare = spare;
  column->width = strlen(column->heading) > NUMBER_WIDTH ? strlen(column->heading) : NUMBER_WIDTH;
  return column;
}

// `key_and_width` is a key, perhaps followed by ":" and a width.
static void add_key(struct bench_output *output, const char *key_and_width, const struct figures_row *row) {
  char text[64], key[FIGURES_NAME];
  size_t size = strcspn(key_and_width, ":"), wanted = 0;
  snprintf(key, sizeof key, "%.*s", (int)size, key_and_width);
  if (key_and_width[size])
    wanted = strtoul(key_and_width + size + 1, NULL, 10);
  const json_t *value = json_object_get(row->keys, key);
  struct bench_output_column *column = add(output, "", key, 0);
  bench_output_value(value, text, sizeof text);
  snprintf(column->key, sizeof column->key, "%s", key);
  column->left = !json_is_integer(value);
  column->width = strlen(column->heading);
  size_t least = strcmp(key, "bytes") == 0 ? 11 : json_is_integer(value) ? 6 : TEXT_WIDTH;
  least = least < wanted ? wanted : least;
  if (column->width < least)
    column->width = least;
  if (column->width < table_width(text)) // a longer value in a later row breaks the line
    column->width = table_width(text);
}

static void add_figure(struct bench_output *output, const struct figure *figure) {
  static const struct {
    const char *heading;
    int what;
    unsigned spare;
  } parts[] = {{"p50", COLUMN_P50, 0},
               {"p95", COLUMN_P95, 2},
               {"p99", COLUMN_P99, 1},
               {"p99.9", COLUMN_P999, 3},
               {"max", COLUMN_MAX, 2}};
  char group[24];
  struct bench_output_column *column;
  snprintf(group, sizeof group, "%.14s, %.6s", figure->name, figure->unit);
  bool whole = figure->count && strcmp(figure->name, "latency") == 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts && whole; i++) {
    column = add(output, i == 0 ? group : "", parts[i].heading, parts[i].spare);
    column->what = parts[i].what;
    snprintf(column->figure, sizeof column->figure, "%s", figure->name);
  }
  if (whole)
    return;
  column = add(output, figure->name, figure->count ? "p50" : figure->unit, figure->count ? 5 : 0);
  column->what = figure->count ? COLUMN_P50 : COLUMN_VALUE;
  if (column->width < strlen(column->group))
    column->width = strlen(column->group);
  snprintf(column->figure, sizeof column->figure, "%s", figure->name);
  if (figure->bound > 0) {
    column = add(output, "of bound", "percent", 1);
    column->what = COLUMN_BOUND;
    snprintf(column->figure, sizeof column->figure, "%s", figure->name);
  }
}

static size_t line_width(const struct bench_output *output) {
  size_t width = 0;
  for (size_t i = 0; i < output->num_columns; i++)
    width += output->table[i].width + (i ? GAP : 0);
  return width;
}

// Leaves columns out until the line fits, or until no column is left that may be left out.
static void fit(struct bench_output *output) {
  while (output->width && line_width(output) > output->width) {
    size_t worst = 0;
    for (size_t i = 1; i < output->num_columns; i++)
      if (output->table[i].spare >= output->table[worst].spare)
        worst = i;
    if (output->table[worst].spare == 0)
      return;
    memmove(&output->table[worst], &output->table[worst + 1],
            (output->num_columns - worst - 1) * sizeof *output->table);
    output->num_columns--;
  }
}

int bench_output_table_begin(struct bench_output *output, const struct figures_row *row) {
  const char *key;
  json_t *value;
  output->table = calloc(MAX_COLUMNS, sizeof *output->table);
  if (!output->table)
    return -1;
  if (output->columns)
    for (size_t i = 0; output->columns[i]; i++)
      add_key(output, output->columns[i], row);
  else
    json_object_foreach(row->keys, key, value) add_key(output, key, row);
  for (uint32_t i = 0; i < row->num_figures && !output->figures; i++)
    add_figure(output, &row->figures[i]);
  for (size_t i = 0; output->figures && output->figures[i]; i++) {
    const struct figure *figure = figures_find(row, output->figures[i]);
    if (figure)
      add_figure(output, figure);
  }
  if (row->slowest[0]) {
    struct bench_output_column *column = add(output, "", "slowest", 4);
    column->what = COLUMN_SLOWEST;
    column->left = true;
    column->width = table_width(row->slowest);
    if (column->width < strlen(column->heading))
      column->width = strlen(column->heading);
  }
  fit(output);
  return 0;
}

static void print_cell(const struct bench_output *output, const struct bench_output_column *column, const char *text,
                       bool last) {
  size_t width = table_width(text), fill = width < column->width ? column->width - width : 0;
  if (column->left && last)
    fprintf(output->out, "%s", text);
  else if (column->left)
    fprintf(output->out, "%s%*s", text, (int)fill, "");
  else
    fprintf(output->out, "%*s%s", (int)fill, "", text);
  if (!last)
    fprintf(output->out, "%*s", GAP, "");
}

void bench_output_table_head(const struct bench_output *output) {
  for (int line = 0; line < 2; line++) {
    if (output->color)
      fputs("\033[1m", output->out);
    size_t over = 0; // by how much the name of a group is longer than its column
    for (size_t i = 0; i < output->num_columns; i++) {
      const struct bench_output_column *column = &output->table[i];
      const char *text = line ? column->heading : column->group;
      size_t width = strlen(text);
      bool last = i + 1 == output->num_columns;
      if (line || width <= column->width) {
        size_t fill = column->width > width ? column->width - width : 0;
        fill = fill > over ? fill - over : 0;
        over = 0;
        fprintf(output->out, "%*s%s%*s", column->left ? 0 : (int)fill, "", text, column->left ? (int)fill : 0, "");
      } else {
        fputs(text, output->out);
        over = width - column->width;
      }
      if (!last)
        fprintf(output->out, "%*s", GAP, "");
    }
    fputs(output->color ? "\033[0m\n" : "\n", output->out);
  }
}

static void format_number(double number, char *out, size_t cap) {
  int digits = number >= 1000 || number <= -1000 ? 0 : number >= 100 ? 1 : number >= 10 ? 2 : 3;
  snprintf(out, cap, "%.*f", digits, number);
}

static void format_figure(const struct bench_output_column *column, const struct figure *figure, char *out,
                          size_t cap) {
  const double numbers[] = {[COLUMN_VALUE] = figure->value, [COLUMN_P50] = figure->p50,   [COLUMN_P95] = figure->p95,
                            [COLUMN_P99] = figure->p99,     [COLUMN_P999] = figure->p999, [COLUMN_MAX] = figure->max};
  if (isnan(figure->value) && column->what <= COLUMN_BOUND)
    snprintf(out, cap, "-");
  else if (column->what == COLUMN_BOUND && figure->bound > 0)
    format_number(100 * figure->value / figure->bound, out, cap);
  else if (column->what <= COLUMN_MAX)
    format_number(numbers[column->what], out, cap);
}

void bench_output_table_row(const struct bench_output *output, const struct figures_row *row) {
  bool red = output->color && row->refused[0];
  if (red)
    fputs("\033[31m", output->out);
  for (size_t i = 0; i < output->num_columns; i++) {
    const struct bench_output_column *column = &output->table[i];
    const struct figure *figure = column->figure[0] ? figures_find(row, column->figure) : NULL;
    char text[FIGURES_TEXT] = "";
    if (column->key[0])
      bench_output_value(json_object_get(row->keys, column->key), text, sizeof text);
    else if (column->what == COLUMN_SLOWEST)
      snprintf(text, sizeof text, "%s", row->slowest);
    else if (figure)
      format_figure(column, figure, text, sizeof text);
    printable_line(text);
    print_cell(output, column, text, i + 1 == output->num_columns);
  }
  fputs(red ? "\033[0m\n" : "\n", output->out);
  if (row->refused[0])
    fprintf(output->out, "  refused: %s\n", row->refused);
}
