// Housekeeping. The agent's thread runs it, or a caller that polls.
#ifndef AGENT_HOUSEKEEPING_H
#define AGENT_HOUSEKEEPING_H

#include "agent/services.h"

// Reads control messages, ends peers and tears them down, runs timers, stops transfers whose time is over. Returns when
// it is due next (CLOCK_MONOTONIC, ns). [housekeeping]
uint64_t agent_housekeep(weft_agent_t *agent, uint64_t now_ns);

#endif
