// Lists of descriptors.
#ifndef AGENT_TRANSFER_DESCRIPTOR_LIST_H
#define AGENT_TRANSFER_DESCRIPTOR_LIST_H

#include "agent/agent.h"

// Takes out what nobody uses any more, for its owner to free. [lock]
void agent_list_close(weft_dlist_t *list);

#endif
