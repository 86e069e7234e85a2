// Rows and cells of a table.
#include "base/text/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/table_rows.h"
#include "base/text/text.h"

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
    width += !text_continues(*text);
  return width;
}
