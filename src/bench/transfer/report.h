// Rank 0's report of the gathered figures: a row of the document, with its bound, and a line of the table.
#ifndef BENCH_TRANSFER_REPORT_H
#define BENCH_TRANSFER_REPORT_H

#include "bench/transfer/gather.h"

struct transfer_report {
  struct transfer_call *call;
  const struct transfer_plan *plan;
  struct figures figures;
  struct bench_progress progress;
  struct limits *limits;
  FILE *own;      // our own table, which is held back until the other one is complete
  char *own_text; // contents of `own`
  size_t own_size;
  bool tables; // on standard output
  bool opened; // the outputs
  uint64_t begin_ns;
};

// Opens the outputs. Prints nothing.
int transfer_report_begin(struct transfer_report *report, struct transfer_call *call, const struct transfer_plan *plan);
// The workers are open: lists their hosts, and prints the heads of the tables.
void transfer_report_head(struct transfer_report *report, const struct transfer_worker *worker);
int transfer_report_row(struct transfer_report *report, const struct transfer_worker *worker,
                        const struct transfer_row *row, const struct transfer_gathered *all);
// `err`: the result of the sweep; its sentence is the last error, which stays unchanged. Returns `err`, or the write
// error.
int transfer_report_end(struct transfer_report *report, int err, bool *refused);

#endif
