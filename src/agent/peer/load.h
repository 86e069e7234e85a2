// Descriptions of peers become peers, or change them.
#ifndef AGENT_PEER_LOAD_H
#define AGENT_PEER_LOAD_H

#include "agent/agent.h"

// Makes a peer of a description or updates the one that it names, all or nothing; nothing of the description is kept.
// `only`: the one peer that it may speak of; 0: any. EXISTS: a living peer of that name is of another incarnation, or
// it is this agent's name; NOT_FOUND: a partial one of an unknown peer; UNREACHABLE: no transport reaches it, the text
// says why; PROTOCOL: it contradicts itself, or speaks of another than `only`; LIMIT: it is more than an agent holds of
// a peer, or of all. Its own description gives WEFT_PEER_SELF. [any, takes lock and worker locks]
int agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only, weft_peer_t *peer);

#endif
