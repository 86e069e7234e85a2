// Aligned columns for people to read. Widths follow the content, within the available width; a column without content
// is left out.
#ifndef BASE_TEXT_TABLE_H
#define BASE_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 24 };

enum table_style {
  TABLE_PLAIN,
  TABLE_BOLD,
  TABLE_DIM,
  TABLE_RED,
  TABLE_GREEN,
  TABLE_YELLOW,
  TABLE_CYAN,
  TABLE_MAGENTA
};

struct table_column {
  const char *heading;
  const char *group; // heading over this column and its neighbours of the same group; NULL: none
  bool right;        // aligned to the right; else to the left
  bool wrap;         // if there is not enough room, its texts continue in the next line
  unsigned spare;    // above 0: the column is left out if there is still not enough room, the highest number first
};

struct table_row;

// Set `columns` and `num_columns`, leave the rest zero; free with table_free(). Texts are UTF-8; each code point counts
// as one column; control characters are printed as '?'.
struct table {
  const struct table_column *columns;
  size_t num_columns; // at most TABLE_MAX_COLUMNS
  struct table_row *rows;
  size_t num_rows, capacity;
  bool failed; // memory ran out: later additions are missing
};

struct table_look {
  bool color;   // ANSI escapes
  bool unicode; // rules in box-drawing characters
  size_t width; // available columns; 0: no limit
};

// Starts a row.
void table_row(struct table *table);

// Adds the row's next cell. "" counts as no content, like a missing cell of a short row.
void table_add(struct table *table, enum table_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds a row of one text that starts at `column` and does not affect the alignment.
void table_note(struct table *table, size_t column, enum table_style style, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Returns the number of columns that were left out for lack of room.
size_t table_print(FILE *out, const struct table *table, const struct table_look *look);
void table_free(struct table *table);

// Prints one text in the same way, padded with blanks to `width` columns.
void table_print_text(FILE *out, bool color, enum table_style style, const char *text, size_t width);

// The number of columns of `text`.
size_t table_width(const char *text);

#endif
