// What the programs with agents share.
#ifndef TESTS_CARRY_AGENTS_H
#define TESTS_CARRY_AGENTS_H

#include "carry/carry.h"

// An agent of that name with the transport shm.
weft_agent_t *carry_agent(const char *name);
// Has `to` load the metadata of `from`; `what` may be NULL. `peer` is what `from` is to `to`.
void carry_know(weft_agent_t *from, weft_agent_t *to, const struct weft_metadata_options *what, weft_peer_t *peer);
// Waits for the next notification, which has this text.
void carry_notified(weft_agent_t *agent, const char *text);

#endif
