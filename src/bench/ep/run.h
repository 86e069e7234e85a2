// A whole benchmark of EP: its ranks, its store, its measurements by turns, and its document.
#ifndef BENCH_EP_RUN_H
#define BENCH_EP_RUN_H

#include "bench/common/output.h"
#include "bench/ep/lead.h"

// Runs it; `output` and `progress` are the caller's and not begun yet. The figures are complete or say what cut them
// short, and hold what was measured, also where this fails: PEER_LOST names a rank that died, INVALID an option that is
// wrong. The figures are the caller's to free.
int bench_ep_run(struct bench_ep_config *config, struct bench_output *output, struct bench_progress *progress,
                 struct figures *figures);

#endif
