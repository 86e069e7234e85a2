// The metadata of this agent.
#ifndef AGENT_METADATA_DESCRIBE_H
#define AGENT_METADATA_DESCRIBE_H

#include "agent/agent.h"

// The key with which this agent and its peers seal metadata; NULL: the agent has no token. [any]
#define agent_seal(agent) ((agent)->seals ? (agent)->seal : NULL)

// Fills in the agent's host and process. [open]
void agent_identify(weft_agent_t *agent);

// Makes a description of the agent; free() frees it. `regions` NULL: it has all regions except those with no_metadata,
// and all_regions is set. Otherwise it has the num_regions regions given, which may be none. [any, takes lock and
// worker locks]
int agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                   struct agent_description **description);
// The same with a caller's options, which are checked; NULL: the defaults.
int agent_describe_chosen(weft_agent_t *agent, const struct weft_metadata_options *options,
                          struct agent_description **description);

#endif
