// Prints tables, with or without styles.
#include <string.h>

#include "base/text/table_rows.h"
#include "base/text/text.h"
#include "base/text/wrap.h"

static const char *const escapes[] = {
    [TABLE_BOLD] = "\033[1m",    [TABLE_DIM] = "\033[2m",   [TABLE_RED] = "\033[1;31m",   [TABLE_GREEN] = "\033[32m",
    [TABLE_YELLOW] = "\033[33m", [TABLE_CYAN] = "\033[36m", [TABLE_MAGENTA] = "\033[35m",
};

static void pad(FILE *out, size_t count) {
  if (count > 0)
    fprintf(out, "%*s", (int)count, "");
}

static void print_bytes(FILE *out, bool color, enum table_style style, const char *text, size_t size) {
  bool escape = color && style != TABLE_PLAIN && size > 0;
  if (escape)
    fputs(escapes[style], out);
  for (size_t i = 0; i < size; i++)
    fputc((unsigned char)text[i] < ' ' || text[i] == 0x7F ? '?' : text[i], out);
  if (escape)
    fputs("\033[0m", out);
}

void table_print_text(FILE *out, bool color, enum table_style style, const char *text, size_t width) {
  print_bytes(out, color, style, text, strlen(text));
  size_t used = table_width(text);
  pad(out, used < width ? width - used : 0);
}

// Blanks up to column `to`; `*at` is where the line stands.
static void advance(FILE *out, size_t *at, size_t to) {
  if (to > *at)
    pad(out, to - *at);
  *at = to > *at ? to : *at;
}

static void print_rule(FILE *out, size_t width, const struct table_look *look) {
  for (size_t i = 0; i < width; i++)
    fputs(look->unicode ? "─" : "-", out);
}

// "--- name ---" over the columns of a group, with as much rule as there is room for. Returns its width in columns.
static size_t print_group(FILE *out, const char *name, size_t width, const struct table_look *look) {
  size_t free = width - table_width(name), rules = free > 2 ? free - 2 : 0, before = rules / 2;
  fputs(look->color ? escapes[TABLE_DIM] : "", out);
  print_rule(out, before, look);
  fprintf(out, "%s%s%s", before > 0 ? " " : "", name, rules > 0 ? " " : "");
  print_rule(out, rules - before + (rules > 0 && before == 0), look);
  fputs(look->color ? "\033[0m" : "", out);
  return rules > 0 ? width : table_width(name);
}

static void print_groups(FILE *out, const struct table *table, const struct table_layout *layout,
                         const struct table_look *look) {
  size_t at = 0, end = 0;
  for (size_t k = 0; k < table->num_columns; k = end) {
    end = table_group_end(table, k);
    size_t width = layout->start[end] - layout->start[k];
    if (table->columns[k].group && width > 0) {
      advance(out, &at, layout->start[k]);
      at += print_group(out, table->columns[k].group, width - layout->gap, look);
    }
  }
  fputc('\n', out);
}

// The rest of a cell that is still to be printed.
struct rest {
  const char *text;
  enum table_style style;
};

// The next piece of a cell in its column. No blanks behind the last one of a line.
static void print_piece(FILE *out, const struct table *table, const struct table_layout *layout, size_t k,
                        struct rest *rest, bool color, size_t *at) {
  size_t room = layout->width[k];
  if (!*rest->text || room == 0)
    return;
  size_t size = table->columns[k].wrap ? wrap_length(rest->text, room) : strlen(rest->text);
  size_t width = 0;
  for (size_t i = 0; i < size; i++)
    width += !text_continues(rest->text[i]);
  advance(out, at, layout->start[k] + (table->columns[k].right && room > width ? room - width : 0));
  print_bytes(out, color, rest->style, rest->text, size);
  *at += width;
  rest->text = table->columns[k].wrap ? wrap_after(rest->text, size) : rest->text + size;
}

// As many lines as the cell that wraps most needs.
static void print_cells(FILE *out, const struct table *table, const struct table_layout *layout,
                        const struct table_row *row, bool color) {
  struct rest rests[TABLE_MAX_COLUMNS];
  for (size_t k = 0; k < row->count; k++)
    rests[k] = (struct rest){row->cells[k].text, row->cells[k].style};
  bool more = true;
  while (more) {
    size_t at = 0;
    more = false;
    for (size_t k = 0; k < row->count; k++) {
      print_piece(out, table, layout, k, &rests[k], color, &at);
      more |= *rests[k].text && layout->width[k] > 0;
    }
    fputc('\n', out);
  }
}

static void print_note(FILE *out, const struct table_layout *layout, const struct table_row *row,
                       const struct table_look *look) {
  const struct cell *cell = &row->cells[0];
  size_t start = layout->start[row->first];
  bool limited = look->width > start;
  const char *text = cell->text;
  do {
    size_t at = 0, size = limited ? wrap_length(text, look->width - start) : strlen(text);
    if (size > 0)
      advance(out, &at, start);
    print_bytes(out, look->color, cell->style, text, size);
    fputc('\n', out);
    text = limited ? wrap_after(text, size) : text + size;
  } while (*text);
}

size_t table_print(FILE *out, const struct table *table, const struct table_look *look) {
  struct table_layout layout = table_lay_out(table, look->width);
  struct table_row headings = {.count = table->num_columns};
  for (size_t k = 0; k < table->num_columns; k++)
    headings.cells[k] = (struct cell){(char *)table->columns[k].heading, TABLE_DIM};
  if (layout.grouped)
    print_groups(out, table, &layout, look);
  print_cells(out, table, &layout, &headings, look->color);
  for (size_t i = 0; i < table->num_rows; i++) {
    if (table->rows[i].note)
      print_note(out, &layout, &table->rows[i], look);
    else
      print_cells(out, table, &layout, &table->rows[i], look->color);
  }
  return layout.left_out;
}
