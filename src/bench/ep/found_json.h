// What the ranks of one host measured, as it travels to the others.
#ifndef BENCH_EP_FOUND_JSON_H
#define BENCH_EP_FOUND_JSON_H

#include <jansson.h>

#include "bench/ep/found.h"

// Of the ranks from number `first` on, `most` at most. NULL: memory ran out.
json_t *bench_ep_found_to_json(const struct bench_ep_found *found, uint32_t first, uint32_t most, uint32_t num_times);

// Takes over `count` ranks from number `first` on, which measured on `host`. PROTOCOL names what is missing or wrong:
// another host wrote it. All ranks must have timed as many iterations.
int bench_ep_found_from_json(struct bench_ep_found *found, uint32_t first, uint32_t count, const char *host,
                             uint32_t num_times, const json_t *json);

#endif
