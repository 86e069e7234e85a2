// The content of a table, and its layout: only for the files of the table.
#ifndef BASE_TEXT_TABLE_ROWS_H
#define BASE_TEXT_TABLE_ROWS_H

#include "base/text/table.h"

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

// The layout: the width of each column (0: it is left out), and where it starts.
struct table_layout {
  size_t width[TABLE_MAX_COLUMNS];
  size_t start[TABLE_MAX_COLUMNS + 1]; // the last entry: where one more column would start
  size_t gap;                          // blanks between columns
  size_t left_out;                     // columns with content for which there is no room
  bool grouped;
};

// Makes a layout for the content. If that is wider than `width` (0: no limit), first the columns that may wrap are
// wrapped, then the gaps between columns get smaller, then spare columns are left out.
struct table_layout table_lay_out(const struct table *table, size_t width);

// The first column behind `column` that belongs to another group.
size_t table_group_end(const struct table *table, size_t column);

#endif
