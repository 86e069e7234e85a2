// `weft bench transfer` under its two names.
#ifndef CLI_BENCH_TRANSFER_H
#define CLI_BENCH_TRANSFER_H

#include "cli/command/command.h"

extern const struct cli_option cli_bench_transfer_rows[];
enum { CLI_BENCH_TRANSFER_ROWS = 94 }; // number of its options

// Options of nixlbench whose empty value means there that they are not given, NULL-terminated. Options of Weft's own
// are not among them.
extern const char *const cli_bench_transfer_may_be_empty[];

#define CLI_BENCH_TRANSFER_TABLE                                                                                       \
  {                                                                                                                    \
    .rows = cli_bench_transfer_rows, .count = CLI_BENCH_TRANSFER_ROWS, .gflags = true,                                 \
    .may_be_empty = cli_bench_transfer_may_be_empty                                                                    \
  }

#endif
