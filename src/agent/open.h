// Opens an agent.
#ifndef AGENT_OPEN_H
#define AGENT_OPEN_H

#include "agent/agent.h"

// weft_agent_open() with additional transports of the caller: `more` ends with NULL; they are preferred to the others.
// For tests.
int agent_open_with(weft_agent_t **agent, const struct weft_agent_options *options,
                    const struct transport *const *more);

#endif
