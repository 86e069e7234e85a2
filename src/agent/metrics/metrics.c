// Counts transfers.
#include "agent/metrics/metrics.h"

#include <stdlib.h>

#include "agent/agent.h"
#include "agent/services.h"
#include "base/fail.h"

static void add(_Atomic uint64_t *to, uint64_t value) {
  atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

void agent_metrics_transfer(struct agent_link *link, enum weft_transfer_op op, uint64_t bytes, uint64_t ns, int err) {
  if (!link->meter || (unsigned)op >= METRICS_OPS)
    return;
  struct metrics_op *to = &link->meter->ops[op];
  if (err) {
    add(err == WEFT_ERR_CANCELED ? &to->cancels : &to->errors, 1);
    return;
  }
  add(&to->bytes, bytes);
  metrics_histogram_add(&to->times, ns);
}

int agent_metrics_open(struct agent_link *link) {
  if (!link->meter)
    link->meter = calloc(1, sizeof *link->meter);
  return link->meter ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the counters of a peer");
}

// Its counts stay in the sum of links that no longer exist.
void agent_metrics_close(struct agent_link *link) {
  struct agent_meter *meter = link->meter;
  struct agent_services *services = link->worker ? link->worker->agent->services : NULL;
  link->meter = NULL;
  for (unsigned op = 0; meter && services && op < METRICS_OPS; op++) {
    struct metrics_op *from = &meter->ops[op], *to = &services->past[link->worker->index].ops[op];
    metrics_histogram_merge(&to->times, &from->times);
    add(&to->bytes, from->bytes);
    add(&to->errors, from->errors);
    add(&to->cancels, from->cancels);
  }
  free(meter);
}
