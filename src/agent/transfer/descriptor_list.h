// Lists of descriptors.
#ifndef AGENT_TRANSFER_DESCRIPTOR_LIST_H
#define AGENT_TRANSFER_DESCRIPTOR_LIST_H

#include "agent/agent.h"

// Frees what nobody uses any more. [lock]
void agent_list_free(weft_dlist_t *list);

#endif
