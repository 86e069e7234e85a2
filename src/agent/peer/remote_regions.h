// The regions of a peer. Its descriptions and updates change them.
#ifndef AGENT_PEER_REMOTE_REGIONS_H
#define AGENT_PEER_REMOTE_REGIONS_H

#include "agent/agent.h"

// Adds those regions of the description that are not known yet, all or none of them; sets `*changed` if there are any.
// PROTOCOL: a region contradicts itself; LIMIT, NOMEM: there are too many. [lock; takes worker locks]
int agent_remote_regions_add(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             bool *changed);
// Gives the known regions in the description the keys of workers that have only now reached the peer. [lock]
void agent_remote_regions_add_keys(weft_agent_t *agent, struct agent_peer *peer,
                                   const struct agent_description *description);
// Drops the regions that are not in the description, which has all regions. Returns whether it dropped any. [lock;
// takes worker locks]
bool agent_remote_regions_drop_others(weft_agent_t *agent, struct agent_peer *peer,
                                      const struct agent_description *description);
// Drops regions that a living peer reports gone. [any, takes lock and worker locks]
void agent_remote_regions_drop(weft_agent_t *agent, weft_peer_t id, const uint64_t *ids, uint32_t count);

#endif
