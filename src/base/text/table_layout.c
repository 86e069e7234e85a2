// How wide the columns of a table are, and which of them there is room for.
#include <string.h>

#include "base/text/table_rows.h"

enum {
  GAP = 2,         // blanks between columns
  NARROW_GAP = 1,  // where there is not enough room
  GROUP_ROOM = 4,  // beside a group's name: a blank and a rule on each side
  NARROW_ROOM = 0, // where there is not enough room: the name alone
  LEAST_WRAP = 10, // a column whose texts wrap is not made narrower
};

size_t table_group_end(const struct table *table, size_t column) {
  const char *group = table->columns[column].group;
  size_t end = column + 1;
  while (group && end < table->num_columns && table->columns[end].group &&
         strcmp(table->columns[end].group, group) == 0)
    end++;
  return end;
}

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

// Widens the last column of a group if the group's name, with some rule on both sides, is wider than its columns.
static void fit_group(const struct table *table, size_t first, size_t end, struct table_layout *layout) {
  size_t total = 0, last = end, *width = layout->width;
  for (size_t k = first; k < end; k++) {
    if (width[k] > 0) {
      total += width[k] + (total > 0 ? layout->gap : 0);
      last = k;
    }
  }
  size_t name = table_width(table->columns[first].group) + (layout->gap == GAP ? GROUP_ROOM : NARROW_ROOM);
  if (last < end && name > total)
    width[last] += name - total;
}

static void place(const struct table *table, struct table_layout *layout) {
  for (size_t k = 0; k < table->num_columns; k = table_group_end(table, k))
    if (table->columns[k].group)
      fit_group(table, k, table_group_end(table, k), layout);
  for (size_t k = 0; k < table->num_columns; k++)
    layout->start[k + 1] = layout->start[k] + (layout->width[k] > 0 ? layout->width[k] + layout->gap : 0);
}

// With the columns that can be spared below `spared` only, and so far apart.
static struct table_layout measure(const struct table *table, unsigned spared, size_t gap) {
  struct table_layout layout = {.gap = gap};
  measure_rows(table, layout.width);
  for (size_t k = 0; k < table->num_columns; k++) {
    size_t heading = table_width(table->columns[k].heading), *width = &layout.width[k];
    if (table->columns[k].spare >= spared && *width > 0) {
      *width = 0;
      layout.left_out++;
    }
    if (*width > 0 && heading > *width)
      *width = heading;
    layout.grouped |= *width > 0 && table->columns[k].group;
  }
  place(table, &layout);
  return layout;
}

static size_t total_of(const struct table *table, const struct table_layout *layout) {
  size_t end = layout->start[table->num_columns];
  return end > layout->gap ? end - layout->gap : 0;
}

// The widest column whose texts may wrap at a smaller width; num_columns: there is none.
static size_t widest_that_wraps(const struct table *table, const struct table_layout *layout) {
  size_t best = table->num_columns;
  for (size_t k = 0; k < table->num_columns; k++)
    if (table->columns[k].wrap && layout->width[k] > LEAST_WRAP &&
        (best == table->num_columns || layout->width[k] > layout->width[best]))
      best = k;
  return best;
}

static bool make_fit(const struct table *table, struct table_layout *layout, size_t width) {
  size_t column;
  while (total_of(table, layout) > width && (column = widest_that_wraps(table, layout)) < table->num_columns) {
    layout->width[column]--;
    place(table, layout);
  }
  return total_of(table, layout) <= width;
}

struct table_layout table_lay_out(const struct table *table, size_t width) {
  unsigned spared = 1; // one more than any column has
  for (size_t k = 0; k < table->num_columns; k++)
    spared = table->columns[k].spare >= spared ? table->columns[k].spare + 1 : spared;
  struct table_layout layout = measure(table, spared, GAP);
  if (width == 0 || make_fit(table, &layout, width))
    return layout;
  do {
    layout = measure(table, spared, NARROW_GAP);
  } while (!make_fit(table, &layout, width) && --spared > 0);
  return layout;
}
