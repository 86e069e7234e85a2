// Housekeeping, as the worker's thread or a caller's progress runs it.
#ifndef AGENT_HOUSEKEEPING_H
#define AGENT_HOUSEKEEPING_H

#include "agent/services.h"

// Reads control messages, ends and tears peers, runs timers, stops transfers whose time is over. Returns when it is due
// next (CLOCK_MONOTONIC, ns). [housekeeping]
uint64_t agent_housekeep(weft_agent_t *agent, uint64_t now_ns);

#endif
