// The columns of the table: the keys of the sweep that vary. The other keys are printed once above the table.
#ifndef BENCH_EP_HEADING_H
#define BENCH_EP_HEADING_H

#include "bench/common/output.h"
#include "bench/ep/ep.h"

// Chooses the columns of a table that has no row yet, and prints the line above it if there is a table.
void bench_ep_heading(struct bench_output *output, const struct bench_ep_config *config);

#endif
