// What a table holds, and where it goes on the screen: for the files of the table alone.
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

// Where everything goes: the width of each column, 0 for one that is left out, and where it starts.
struct table_layout {
  size_t width[TABLE_MAX_COLUMNS];
  size_t start[TABLE_MAX_COLUMNS + 1]; // the last: where one more column would start
  size_t gap;                          // blanks between columns
  size_t left_out;                     // columns with content for which there is no room
  bool grouped;
};

// As the content asks; where that is wider than `width` (0: there is no limit), texts of columns that may wrap do, then
// columns stand closer together, then the columns that can be spared go.
struct table_layout table_lay_out(const struct table *table, size_t width);

// The first column behind `column` that is of another group.
size_t table_group_end(const struct table *table, size_t column);

#endif
