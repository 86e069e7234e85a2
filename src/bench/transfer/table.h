// The text that parsers of nixlbench's output read: a block of settings and a table of ten columns.
#ifndef BENCH_TRANSFER_TABLE_H
#define BENCH_TRANSFER_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

// Sizes in bytes, 1e9 bytes a second, times in us.
struct transfer_line {
  uint64_t block, batch;
  double bandwidth, latency, prep, prep_p99, post, post_p99, transfer, transfer_p99;
  bool refused; // parsers get nan for each figure, which they read as a number that is none
};

// `title`: the line above the settings.
void transfer_table_settings(FILE *out, const char *title, const json_t *settings);
void transfer_table_header(FILE *out);
void transfer_table_line(FILE *out, const struct transfer_line *line);

#endif
