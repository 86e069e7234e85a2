// Agents on a store of the kind under test, for the parts of the suite of metadata through a store.
#ifndef AGENT_EXCHANGE_SUPPORT_STORE_AGENT_H
#define AGENT_EXCHANGE_SUPPORT_STORE_AGENT_H

#include "agent/support/crowd.h"

enum { STORE_AGENT_TTL_S = 5 }; // a loaded machine may not renew a lease of two seconds

extern const char store_agent_prefix[];  // prefix of their keys
extern uint32_t store_agent_lease_ttl_s; // for agents that are opened from now on

// Each function ends the test on failure.
void store_agent_open(struct crowd_member *member, const char *name, weft_store_t *store);
void store_agent_publish(struct crowd_member *member);
weft_peer_t store_agent_fetch(struct crowd_member *member, const char *name);
weft_region_t store_agent_allocate(struct crowd_member *member);
uint32_t store_agent_count_regions(struct crowd_member *member, weft_peer_t peer);

#endif
