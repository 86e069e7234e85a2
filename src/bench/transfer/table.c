// The text that scrapers of nixlbench read. docs/guide/bench.md lists the column numbers and the blanks.
#include "bench/transfer/table.h"

#include <inttypes.h>
#include <math.h>

enum { WIDTH = 160, NAMES = 60 };

static void rule(FILE *out, char c) {
  for (int i = 0; i < WIDTH; i++)
    fputc(c, out);
  fputc('\n', out);
}

static void write_value(FILE *out, const json_t *value) {
  if (json_is_integer(value))
    fprintf(out, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
  else if (json_is_boolean(value))
    fprintf(out, "%d\n", json_is_true(value));
  else
    fprintf(out, "%s\n", json_is_string(value) ? json_string_value(value) : "");
}

void transfer_table_settings(FILE *out, const char *title, const json_t *settings) {
  const char *name;
  json_t *value;
  rule(out, '*');
  fprintf(out, "%s\n", title);
  rule(out, '*');
  json_object_foreach((json_t *)settings, name, value) {
    char label[2 * NAMES];
    snprintf(label, sizeof label, "%s (--%s)", name, name);
    fprintf(out, "%-*s: ", NAMES, label);
    write_value(out, value);
  }
  rule(out, '-');
}

void transfer_table_header(FILE *out) {
  static const char *const columns[] = {"Batch Size",    "B/W (GB/Sec)",  "Avg Lat. (us)",
                                        "Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)",
                                        "P99 Post (us)", "Avg Tx (us)",   "P99 Tx (us)"};
  fprintf(out, "%-20s", "Block Size (B)");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    fprintf(out, "%-15s", columns[i]);
  fputc('\n', out);
  rule(out, '-');
  fflush(out);
}

void transfer_table_line(FILE *out, const struct transfer_line *line) {
  const double times[] = {line->latency,  line->prep,     line->prep_p99,    line->post,
                          line->post_p99, line->transfer, line->transfer_p99};
  fprintf(out, "%-20" PRIu64 "%-15" PRIu64, line->block, line->batch);
  fprintf(out, "%-15.6f", line->refused ? NAN : line->bandwidth);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    fprintf(out, "%-15.1f", line->refused ? NAN : times[i]);
  fputc('\n', out);
  fflush(out);
}
