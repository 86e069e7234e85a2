// The part of the plug-in that works on a finished choice, without hwloc.
#ifndef TOPOLOGY_SERVED_SERVED_H
#define TOPOLOGY_SERVED_SERVED_H

#include "topology/choice/choice.h"
#include "topology/served/serve.h"

// Chooses again without the RDMA devices that are not in `openable`; if none has to be left out, does nothing. NOMEM.
int topology_keep_openable(struct topology_choice *choice, const char *openable);

// Finds the NICs that serve the GPUs of `ask`, as far as these GPUs are known; otherwise those near the processors.
void topology_served_by(const struct topology_choice *choice, const struct topology_ask *ask,
                        struct topology_served *served);

#endif
