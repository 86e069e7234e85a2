// Counters of ranks as OpenMetrics text: of one rank for its application, of many ranks for the process that runs them.
#ifndef EP_METRICS_H
#define EP_METRICS_H

#include <stdint.h>

#include <weft/ep.h>

#include "base/text/text.h"

struct ep_metrics_rank {
  int32_t rank;
  struct weft_ep_stats stats;
};

// Writes the metric families of weft_ep_stats, each with a series for every rank. [any]
void ep_metrics_put(struct text *text, const struct ep_metrics_rank *ranks, uint32_t count);

#endif
