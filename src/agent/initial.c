// Initial values of the public structs, for languages that have no macros.
#include <weft/agent.h>

#include "base/sized.h"

SIZED_DEFINE_INIT(agent_options, WEFT_AGENT_OPTIONS_INIT)
SIZED_DEFINE_INIT(agent_memory, WEFT_AGENT_MEMORY_INIT)
SIZED_DEFINE_INIT(memory_status, WEFT_MEMORY_STATUS_INIT)
SIZED_DEFINE_INIT(metadata_options, WEFT_METADATA_OPTIONS_INIT)
SIZED_DEFINE_INIT(transfer_options, WEFT_TRANSFER_OPTIONS_INIT)
SIZED_DEFINE_INIT(agent_event, WEFT_AGENT_EVENT_INIT)
SIZED_DEFINE_INIT(post, WEFT_POST_INIT)
SIZED_DEFINE_INIT(peer_info, WEFT_PEER_INFO_INIT)
SIZED_DEFINE_INIT(agent_stats, WEFT_AGENT_STATS_INIT)
SIZED_DEFINE_INIT(transfer_info, WEFT_TRANSFER_INFO_INIT)
