// `weft bench transfer` under its two names.
#ifndef CLI_BENCH_TRANSFER_H
#define CLI_BENCH_TRANSFER_H

#include "cli/command/command.h"

extern const struct cli_option cli_bench_transfer_rows[];
enum { CLI_BENCH_TRANSFER_ROWS = 94 }; // of them

// `as_nixlbench`: workers meet on the etcd of this host where nothing else is said.
int cli_bench_transfer_run(const struct cli_call *call, bool as_nixlbench);

#endif
