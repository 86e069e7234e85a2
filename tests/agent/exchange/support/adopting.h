// A peer that is invalidated while its description is adopted. For programs that are linked with --wrap=agent_adopt.
#ifndef TESTS_AGENT_ADOPTING_H
#define TESTS_AGENT_ADOPTING_H

#include <weft/agent.h>

// The next time `agent` adopts a description, it invalidates `peer` first; with 0, the peer that the description makes,
// right afterwards.
void adopting_invalidates(weft_agent_t *agent, weft_peer_t peer);

#endif
