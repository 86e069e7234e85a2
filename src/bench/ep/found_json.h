// The measurements of one host's ranks, in the form that is sent to other hosts.
#ifndef BENCH_EP_FOUND_JSON_H
#define BENCH_EP_FOUND_JSON_H

#include <jansson.h>

#include "bench/ep/found.h"

// For the ranks from number `first` on, at most `most`. NULL: memory ran out.
json_t *bench_ep_found_to_json(const struct bench_ep_found *found, uint32_t first, uint32_t most, uint32_t num_times);

// Reads the results of `count` ranks from number `first` on, which measured on `host`. PROTOCOL names what is missing
// or wrong, since another host wrote the data. All ranks must have timed the same number of iterations.
int bench_ep_found_from_json(struct bench_ep_found *found, uint32_t first, uint32_t count, const char *host,
                             uint32_t num_times, const json_t *json);

#endif
