// Regions that workers have imported.
#ifndef AGENT_TRANSFER_IMPORT_H
#define AGENT_TRANSFER_IMPORT_H

#include "agent/agent.h"

// Gives a worker access to a region of a peer, or of this agent by loopback; the access is made when it is first
// needed. NULL: there is none, and region->why[] or the link says why. [lock; takes the worker's lock]
struct transport_remote *agent_region_remote(struct agent_region *region, struct agent_worker *worker);

#endif
