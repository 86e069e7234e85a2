// Lists of descriptors.
#ifndef AGENT_MEMORY_DESCRIPTOR_LIST_H
#define AGENT_MEMORY_DESCRIPTOR_LIST_H

#include "agent/agent.h"

// Has transfers to a region of the peer that has gone fail. [lock]
void agent_lists_break(struct agent_peer *peer, const struct agent_region *region);

// Frees what nobody uses any more. [lock]
void agent_list_free(weft_list_t *list);

#endif
