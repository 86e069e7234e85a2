// Regions as a worker reaches them.
#ifndef AGENT_TRANSFER_IMPORT_H
#define AGENT_TRANSFER_IMPORT_H

#include "agent/agent.h"

// The worker's way to a region of a peer, or of this agent by loopback; made when first asked for. NULL: there is none,
// and region->why[] or the link says why. [lock; takes the worker's lock]
struct transport_remote *agent_region_remote(struct agent_region *region, struct agent_worker *worker);

#endif
