// A whole benchmark of EP: its ranks, its store, its measurements one after the other, and its document.
#ifndef BENCH_EP_RUN_H
#define BENCH_EP_RUN_H

#include "bench/common/output.h"
#include "bench/ep/lead.h"

// Runs the benchmark; `output` and `progress` belong to the caller and must not have begun. The figures are complete or
// say what cut them short, and contain everything that was measured, also after an error: PEER_LOST names a rank that
// died, INVALID an option that is wrong. The caller frees the figures.
int bench_ep_run(struct bench_ep_config *config, struct bench_output *output, struct bench_progress *progress,
                 struct figures *figures);

#endif
