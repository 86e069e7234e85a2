// The links to a peer: one for each transport that both sides have open. All functions are called with agent->lock
// held.
#ifndef AGENT_PEER_LINKS_H
#define AGENT_PEER_LINKS_H

#include "agent/agent.h"

// For each transport of the description, in its order: this agent's worker of that transport, or UINT32_MAX.
void agent_links_match(const weft_agent_t *agent, const struct agent_description *description, uint32_t *worker);

// Connects the workers that both sides have and that were not tried yet. Returns the number of workers that newly reach
// the peer; `why` says why the last of the other workers does not. [lock; takes worker locks]
uint32_t agent_links_connect(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             char *why, size_t size);
// The same for a new peer: at least one worker has to reach it. [lock; takes worker locks]
int agent_links_connect_all(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description);

// If no worker carries messages to the peer yet, chooses the first worker that does; workers are in the order of
// preference.
void agent_links_choose_messenger(weft_agent_t *agent, struct agent_peer *peer);

#endif
