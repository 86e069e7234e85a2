// Counters of the transfers over one link. Any thread increments them without a lock.
#ifndef AGENT_METRICS_METRICS_H
#define AGENT_METRICS_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/agent.h"
#include "base/text/text.h"
#include "metrics/histogram.h"

enum { METRICS_OPS = 2 }; // enum weft_transfer_op

struct metrics_op {
  struct metrics_histogram times; // of transfers that ended without an error
  _Atomic uint64_t bytes, errors, cancels;
};

struct agent_meter {
  struct metrics_op ops[METRICS_OPS];
};

// metrics.c Counts a transfer over this link, which has ended. Allocates nothing, waits for nothing. [any]
void agent_metrics_transfer(struct agent_link *link, enum weft_transfer_op op, uint64_t bytes, uint64_t ns, int err);
// The first makes link->meter, the second frees it. [lock]
int agent_metrics_open(struct agent_link *link);
void agent_metrics_close(struct agent_link *link);

// text.c: writes all metrics in the OpenMetrics text format 1.0. `text` has failed if memory ran out.
void agent_metrics_write(weft_agent_t *agent, struct text *text);

#endif
