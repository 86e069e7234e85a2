// The bound of the bytes that ranks send each other.
#ifndef BENCH_EP_BOUND_H
#define BENCH_EP_BOUND_H

#include "bench/common/output.h"
#include "bench/ep/found.h"
#include "limits/limits.h"

// Adds the bound to the row's wire_bandwidth, and the bound of the whole route to the document. Refuses the row if the
// figure cannot be true. Notes in the output what the network library uses. `as_hosts`: of the configuration.
int bench_ep_bound_row(struct limits *limits, struct bench_output *output, struct figures *figures,
                       struct figures_row *row, const struct bench_ep_point *point, const struct bench_ep_found *found,
                       uint32_t as_hosts);

#endif
