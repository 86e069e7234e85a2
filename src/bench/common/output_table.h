// The table of rows, printed as they are measured: the first row determines the columns.
#ifndef BENCH_COMMON_OUTPUT_TABLE_H
#define BENCH_COMMON_OUTPUT_TABLE_H

#include "bench/common/output.h"

struct bench_output_column {
  char group[24], heading[24]; // two lines
  char key[FIGURES_NAME];      // a key of the row; or "" and
  char figure[FIGURES_NAME];   // a figure's
  enum { COLUMN_VALUE, COLUMN_P50, COLUMN_P95, COLUMN_P99, COLUMN_P999, COLUMN_MAX, COLUMN_BOUND, COLUMN_SLOWEST } what;
  size_t width;
  unsigned spare; // columns to omit if the line is too long, the highest value first
  bool left;      // aligned left
};

// Chooses the columns. NOMEM.
int bench_output_table_begin(struct bench_output *output, const struct figures_row *row);
void bench_output_table_head(const struct bench_output *output);
void bench_output_table_row(const struct bench_output *output, const struct figures_row *row);

// A key's value as a text into out[cap]: strings without quotes, numbers and booleans as JSON has them.
void bench_output_value(const json_t *value, char *out, size_t cap);

#endif
