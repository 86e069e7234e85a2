// Which columns the table has: keys of the sweep that vary. The others stand above it, once.
#ifndef BENCH_EP_HEADING_H
#define BENCH_EP_HEADING_H

#include "bench/common/output.h"
#include "bench/ep/ep.h"

// Chooses the columns of a table that has no row yet, and prints the line above it where there is a table.
void bench_ep_heading(struct bench_output *output, const struct bench_ep_config *config);

#endif
