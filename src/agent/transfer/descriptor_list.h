// Lists of descriptors.
#ifndef AGENT_TRANSFER_DESCRIPTOR_LIST_H
#define AGENT_TRANSFER_DESCRIPTOR_LIST_H

#include "agent/agent.h"

// Unlinks a list that nobody uses any more; its owner then frees it. [lock]
void agent_list_close(weft_dlist_t *list);

#endif
