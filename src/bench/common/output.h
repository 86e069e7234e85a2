// The outputs of a benchmark's rows. The table on the terminal and the CSV line are written at once. The JSON file is
// saved anew after each row, so that a kill or a full disk loses nothing that was measured. The page and the text for
// Prometheus are written at the end.
#ifndef BENCH_COMMON_OUTPUT_H
#define BENCH_COMMON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/common/options.h"
#include "bench/common/progress.h"
#include "limits/uses.h"
#include "measure/figures.h"

struct bench_output {
  const char *json, *csv, *html, *prometheus; // as struct bench_options has them
  bool color, unicode;
  size_t width;               // columns of the terminal
  FILE *out;                  // output of the table; NULL: standard output, or none if JSON or CSV is written there
  const char *const *columns; // keys of a row that are columns, in their order, NULL at the end; NULL: all of the first
                              // row's. "op:13": that key, at least so wide
  const char *const *figures; // names of the figures that are columns, NULL at the end; NULL: all of the first row's
  const char *const
      *more_keys; // keys that only later rows have, NULL at the end: CSV has columns for them; may be NULL
  const char *const *more_times;   // the same for figures of times that the first row may lack
  struct bench_progress *progress; // hidden before a line is printed; may be NULL
  struct limits_uses uses;         // of network libraries, printed at the end: bench_output_uses()
  // Private members from here on.
  FILE *csv_file;
  bool headed, refused;
  uint64_t next_save_ns;
  int saved_err; // the first write error, and its sentence
  char saved_why[512];
  json_t *csv_keys;
  struct bench_output_column *table;
  size_t num_columns;
};

// Copies the files from the options. The caller sets the other fields, before bench_output_begin().
void bench_output_init(struct bench_output *output, const struct bench_options *options);
// Opens the files, before anything is measured. SYSTEM or LIMIT names the file that cannot be written. UNSUPPORTED:
// this build makes no pages.
int bench_output_begin(struct bench_output *output, const struct figures *figures);
// To be called when the figures have one more row. A write error is reported on standard error at once, and measuring
// goes on.
void bench_output_row(struct bench_output *output, const struct figures *figures, const struct figures_row *row);
// Notes for the end, and as the setting `uses`, what carries transfers over that route; see limits_uses_note(). To be
// called before the row that is measured over it.
void bench_output_uses(struct bench_output *output, struct figures *figures, const char *peer_uses,
                       const struct limits_route *route);
// Ends the output and writes everything. Returns the write error, also one of an earlier row, or 0. The exit status of
// a benchmark is 1 if a row was refused: bench_output_refused().
int bench_output_end(struct bench_output *output, const struct figures *figures);
bool bench_output_refused(const struct bench_output *output);
// The result of a benchmark that ended with `err` and the sentence `why`, and whose output ended with `written` and the
// last error. Of two errors it returns the benchmark's own, and prints the other one, unless that was printed before.
int bench_output_result(const struct bench_output *output, int err, const char *why, int written);

#endif
