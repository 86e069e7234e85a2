// What bounds the bytes that ranks send each other, beside their figure.
#ifndef BENCH_EP_BOUND_H
#define BENCH_EP_BOUND_H

#include "bench/ep/found.h"
#include "limits/limits.h"

// Gives the row's wire_bandwidth its bound, and the document that of the whole route; refuses the row where the figure
// cannot be true. `as_hosts`: of the configuration.
int bench_ep_bound_row(struct limits *limits, struct figures *figures, struct figures_row *row,
                       const struct bench_ep_point *point, const struct bench_ep_found *found, uint32_t as_hosts);

#endif
