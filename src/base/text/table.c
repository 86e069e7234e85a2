// Writes aligned columns, in one style or another.
#include "base/text/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
  GAP = 2,        // blanks between columns
  GROUP_ROOM = 4, // beside a group's name: a blank and a rule on each side
};

struct cell {
  char *text;
  enum table_style style;
};

struct table_row {
  bool note;
  size_t first; // column of cells[0]
  size_t count;
  struct cell cells[TABLE_MAX_COLUMNS];
};

static const char *const escapes[] = {
    [TABLE_BOLD] = "\033[1m",    [TABLE_DIM] = "\033[2m",   [TABLE_RED] = "\033[1;31m",   [TABLE_GREEN] = "\033[32m",
    [TABLE_YELLOW] = "\033[33m", [TABLE_CYAN] = "\033[36m", [TABLE_MAGENTA] = "\033[35m",
};

void table_row(struct table *table) {
  if (table->failed)
    return;
  if (table->num_rows == table->capacity) {
    size_t capacity = table->capacity ? 2 * table->capacity : 16;
    struct table_row *rows = realloc(table->rows, capacity * sizeof *rows);
    if (!rows) {
      table->failed = true;
      return;
    }
    table->rows = rows;
    table->capacity = capacity;
  }
  table->rows[table->num_rows++] = (struct table_row){0};
}

static void add(struct table *table, enum table_style style, const char *format, va_list args) {
  if (table->failed)
    return;
  struct table_row *row = &table->rows[table->num_rows - 1];
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0)
    table->failed = true;
  else
    row->cells[row->count++] = (struct cell){text, style};
}

void table_add(struct table *table, enum table_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(table, style, format, args);
  va_end(args);
}

void table_note(struct table *table, size_t column, enum table_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  table_row(table);
  add(table, style, format, args);
  if (!table->failed) {
    table->rows[table->num_rows - 1].note = true;
    table->rows[table->num_rows - 1].first = column;
  }
  va_end(args);
}

void table_free(struct table *table) {
  for (size_t i = 0; i < table->num_rows; i++)
    for (size_t k = 0; k < table->rows[i].count; k++)
      free(table->rows[i].cells[k].text);
  free(table->rows);
  *table = (struct table){0};
}

size_t table_width(const char *text) {
  size_t width = 0;
  for (; *text; text++)
    width += ((unsigned char)*text & 0xC0) != 0x80;
  return width;
}

static void pad(FILE *out, size_t count) {
  if (count > 0)
    fprintf(out, "%*s", (int)count, "");
}

void table_print_text(FILE *out, bool color, enum table_style style, const char *text, size_t width) {
  bool escape = color && style != TABLE_PLAIN && *text;
  if (escape)
    fputs(escapes[style], out);
  for (const char *at = text; *at; at++)
    fputc((unsigned char)*at < ' ' || *at == 0x7F ? '?' : *at, out);
  if (escape)
    fputs("\033[0m", out);
  size_t used = table_width(text);
  pad(out, used < width ? width - used : 0);
}

// The first column behind `column` that is of another group.
static size_t group_end(const struct table *table, size_t column) {
  const char *group = table->columns[column].group;
  size_t end = column + 1;
  while (group && end < table->num_columns && table->columns[end].group &&
         strcmp(table->columns[end].group, group) == 0)
    end++;
  return end;
}

// Where everything goes: the width of each column, 0 for one that is left out, and where it starts.
struct layout {
  size_t width[TABLE_MAX_COLUMNS];
  size_t start[TABLE_MAX_COLUMNS + 1]; // the last: where one more column would start
  bool grouped;
};

// The widest text of each column.
static void measure_rows(const struct table *table, size_t *width) {
  for (size_t i = 0; i < table->num_rows; i++) {
    const struct table_row *row = &table->rows[i];
    for (size_t k = 0; k < row->count && !row->note; k++) {
      size_t needed = table_width(row->cells[k].text);
      width[k] = needed > width[k] ? needed : width[k];
    }
  }
}

// Widens the last column of a group whose name, with some rule on both sides, is longer than its columns are wide.
static void fit_group(const struct table *table, size_t first, size_t end, size_t *width) {
  size_t total = 0, last = end;
  for (size_t k = first; k < end; k++) {
    if (width[k] > 0) {
      total += width[k] + (total > 0 ? GAP : 0);
      last = k;
    }
  }
  size_t name = table_width(table->columns[first].group) + GROUP_ROOM;
  if (last < end && name > total)
    width[last] += name - total;
}

static struct layout measure(const struct table *table) {
  struct layout layout = {0};
  measure_rows(table, layout.width);
  for (size_t k = 0; k < table->num_columns; k++) {
    size_t heading = table_width(table->columns[k].heading);
    if (layout.width[k] > 0 && heading > layout.width[k])
      layout.width[k] = heading;
    layout.grouped |= layout.width[k] > 0 && table->columns[k].group;
  }
  for (size_t k = 0; k < table->num_columns; k = group_end(table, k))
    if (table->columns[k].group)
      fit_group(table, k, group_end(table, k), layout.width);
  for (size_t k = 0; k < table->num_columns; k++)
    layout.start[k + 1] = layout.start[k] + (layout.width[k] > 0 ? layout.width[k] + GAP : 0);
  return layout;
}

// Blanks up to column `to`; `*at` is where the line stands.
static void advance(FILE *out, size_t *at, size_t to) {
  if (to > *at)
    pad(out, to - *at);
  *at = to > *at ? to : *at;
}

// "--- name ---" over the columns of a group.
static void print_group(FILE *out, const char *name, size_t width, const struct table_look *look) {
  size_t rules = width - table_width(name) - 2;
  fputs(look->color ? escapes[TABLE_DIM] : "", out);
  for (size_t i = 0; i < rules; i++) {
    if (i == rules / 2)
      fprintf(out, " %s ", name);
    fputs(look->unicode ? "─" : "-", out);
  }
  fputs(look->color ? "\033[0m" : "", out);
}

static void print_groups(FILE *out, const struct table *table, const struct layout *layout,
                         const struct table_look *look) {
  size_t at = 0, end = 0;
  for (size_t k = 0; k < table->num_columns; k = end) {
    end = group_end(table, k);
    size_t width = layout->start[end] - layout->start[k];
    if (table->columns[k].group && width > 0) {
      advance(out, &at, layout->start[k]);
      print_group(out, table->columns[k].group, width - GAP, look);
      at += width - GAP;
    }
  }
  fputc('\n', out);
}

// One text in its column. No blanks behind the last one of a line.
static void print_cell(FILE *out, const struct table *table, const struct layout *layout, size_t k,
                       const struct cell *cell, bool color, size_t *at) {
  size_t width = table_width(cell->text);
  if (width == 0)
    return;
  advance(out, at, layout->start[k] + (table->columns[k].right ? layout->width[k] - width : 0));
  table_print_text(out, color, cell->style, cell->text, 0);
  *at += width;
}

static void print_row(FILE *out, const struct table *table, const struct layout *layout, const struct table_row *row,
                      bool color) {
  size_t at = 0;
  if (row->note) {
    advance(out, &at, layout->start[row->first]);
    table_print_text(out, color, row->cells[0].style, row->cells[0].text, 0);
  } else {
    for (size_t k = 0; k < row->count; k++)
      print_cell(out, table, layout, k, &row->cells[k], color, &at);
  }
  fputc('\n', out);
}

void table_print(FILE *out, const struct table *table, const struct table_look *look) {
  struct layout layout = measure(table);
  if (layout.grouped)
    print_groups(out, table, &layout, look);
  size_t at = 0;
  for (size_t k = 0; k < table->num_columns; k++) {
    struct cell heading = {(char *)table->columns[k].heading, TABLE_DIM};
    if (layout.width[k] > 0)
      print_cell(out, table, &layout, k, &heading, look->color, &at);
  }
  fputc('\n', out);
  for (size_t i = 0; i < table->num_rows; i++)
    print_row(out, table, &layout, &table->rows[i], look->color);
}
