// Workers: one for each transport that an agent has opened.
#ifndef AGENT_PROGRESS_WORKER_H
#define AGENT_PROGRESS_WORKER_H

#include "agent/agent.h"

enum { AGENT_OWNER = WEFT_AGENT_MAX_NAME + 32 };
// Whose worker of a transport it is, as transport_options.owner has it. [any]
void agent_owner(char owner[AGENT_OWNER], const char *name, uint64_t incarnation);

// Opens those that options.transports names, all of which have to work; or all that do.
int agent_workers_open(weft_agent_t *agent, const struct transport *const *more);
void agent_workers_close(weft_agent_t *agent);

#endif
