// The ways to a peer: one for each worker that both sides have. All with agent->lock held.
#ifndef AGENT_PEER_LINKS_H
#define AGENT_PEER_LINKS_H

#include "agent/agent.h"

// By place in the description: the worker of that transport, or UINT32_MAX.
void agent_links_match(const weft_agent_t *agent, const struct agent_description *description, uint32_t *worker);

// Connects the workers that both sides have and that were not tried. Returns how many reach the peer now that did not
// before; `why` is why the last other one does not. [lock; takes worker locks]
uint32_t agent_links_connect(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             char *why, size_t size);
// Of a new peer: at least one worker has to reach it. [likewise]
int agent_links_connect_all(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description);

// Where nothing carries messages yet: the first that does; workers stand in the order of preference.
void agent_links_choose_messenger(weft_agent_t *agent, struct agent_peer *peer);

#endif
