// How an agent begins.
#ifndef AGENT_OPEN_H
#define AGENT_OPEN_H

#include "agent/agent.h"

// weft_agent_open() with transports of the caller's own besides: `more` ends with NULL, and goes before the others. For
// tests.
int agent_open_with(weft_agent_t **agent, const struct weft_agent_options *options,
                    const struct transport *const *more);

#endif
