// The part of the plug-in that only looks at a choice.
#ifndef TOPOLOGY_SERVED_SERVED_H
#define TOPOLOGY_SERVED_SERVED_H

#include "topology/choice/choice.h"
#include "topology/served/serve.h"

// Chooses again without the RDMA devices that are not in `openable`; if none has to be left out, does nothing. NOMEM.
int topology_keep_openable(struct topology_choice *choice, const char *openable);

// Those that serve the GPUs that are asked for, as far as they are known; else those near the processors.
void topology_served_by(const struct topology_choice *choice, const struct topology_ask *ask,
                        struct topology_served *served);

#endif
