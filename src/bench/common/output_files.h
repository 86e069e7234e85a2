// The files of a benchmark's output other than its JSON.
#ifndef BENCH_COMMON_OUTPUT_FILES_H
#define BENCH_COMMON_OUTPUT_FILES_H

#include "bench/common/output.h"

#define BENCH_OUTPUT_QUICK_NS UINT64_C(50000000) // a file that is saved in less time is saved after each row

// CSV: a header that depends on the first row, and a line for each row, flushed.
int bench_output_csv_open(struct bench_output *output);
int bench_output_csv_row(struct bench_output *output, const struct figures_row *row);
int bench_output_csv_close(struct bench_output *output);

// The page and the text for Prometheus. UNSUPPORTED: this build has no pages.
int bench_output_check_pages(const struct bench_output *output);
int bench_output_write_pages(const struct bench_output *output, const struct figures *figures);

#endif
