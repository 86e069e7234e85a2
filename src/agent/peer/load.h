// Makes peers from descriptions, and updates peers.
#ifndef AGENT_PEER_LOAD_H
#define AGENT_PEER_LOAD_H

#include "agent/agent.h"

// Makes a peer of a description, or updates the peer that the description names, completely or not at all. It keeps no
// reference to the description. `only`: the only peer that the description may name; 0: any. EXISTS: a living peer of
// that name has another incarnation, or the name is this agent's. NOT_FOUND: the description is partial and its peer
// unknown. UNREACHABLE: no transport reaches the peer; the text says why. PROTOCOL: the description contradicts itself,
// or names another peer than `only`. LIMIT: it has more regions than an agent can keep of one peer, or of all peers.
// This agent's own description gives WEFT_PEER_SELF. [any, takes lock and worker locks]
int agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only, weft_peer_t *peer);

#endif
