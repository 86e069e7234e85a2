// The metadata of this agent.
#ifndef AGENT_METADATA_DESCRIBE_H
#define AGENT_METADATA_DESCRIBE_H

#include "agent/agent.h"

// The key that its metadata and that of others is sealed with; NULL: it has no token. [any]
#define agent_seal(agent) ((agent)->seals ? (agent)->seal : NULL)

// Host, process. [open]
void agent_identify(weft_agent_t *agent);

// Fills one in from the agent; free() frees it. `regions` NULL: all but those of no_metadata, and then all_regions is
// set; else num_regions of them, which may be none. [any, takes lock and worker locks]
int agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                   struct agent_description **description);
// The same by a caller's options, which it checks; NULL: the defaults.
int agent_describe_chosen(weft_agent_t *agent, const struct weft_metadata_options *options,
                          struct agent_description **description);

#endif
