// `weft bench transfer` under its two names.
#ifndef CLI_BENCH_TRANSFER_H
#define CLI_BENCH_TRANSFER_H

#include "cli/command/command.h"

extern const struct cli_option cli_bench_transfer_rows[];
enum { CLI_BENCH_TRANSFER_ROWS = 94 }; // number of its options

#endif
