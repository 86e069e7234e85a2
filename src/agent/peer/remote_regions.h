// The regions of a peer, as its descriptions and its updates change them.
#ifndef AGENT_PEER_REMOTE_REGIONS_H
#define AGENT_PEER_REMOTE_REGIONS_H

#include "agent/agent.h"

// Adds the regions of the description that the peer is not known to have, all or none of them; sets `*changed` if there
// are any. PROTOCOL: a region contradicts itself; LIMIT, NOMEM: they are too many. [lock; takes worker locks]
int agent_remote_regions_add(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             bool *changed);
// Gives the known regions of the description the keys of workers that reach the peer only now. [lock]
void agent_remote_regions_add_keys(weft_agent_t *agent, struct agent_peer *peer,
                                   const struct agent_description *description);
// Drops what is not in the description, which has all regions. Returns whether there was any. [lock; takes worker
// locks]
bool agent_remote_regions_drop_others(weft_agent_t *agent, struct agent_peer *peer,
                                      const struct agent_description *description);
// Drops regions of a living peer which it says have gone. [any, takes lock and worker locks]
void agent_remote_regions_drop(weft_agent_t *agent, weft_peer_t id, const uint64_t *ids, uint32_t count);

#endif
