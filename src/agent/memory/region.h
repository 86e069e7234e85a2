// Regions as their workers have them.
#ifndef AGENT_MEMORY_REGION_H
#define AGENT_MEMORY_REGION_H

#include "agent/agent.h"

// Lets the workers release what they have of a region, and frees it. [lock, all worker locks; not in `ranges` any more]
void agent_region_free(weft_agent_t *agent, struct agent_region *region);

// --- allocate.c: memory that the agent allocates, and peers can map ---

// HOST or CUDA, of region->length bytes: fills in the address, the descriptor and the device. What was made before a
// failure is agent_region_free()'s to give back.
int agent_memory_make(struct agent_region *region);
void agent_memory_free(struct agent_region *region);

// --- region.c ---

// Keeps the calling thread's last error as the reason why the worker does not have it.
void agent_region_keep_why(struct agent_region *region, uint32_t worker);

// "region 5 (4096 bytes of host memory at 0x7f..)": for sentences; returns `text`.
const char *agent_region_name(const struct agent_region *region, char *text, size_t size);
const char *agent_kind_name(enum weft_memory_kind kind);

// For the test of what happens when ids run out.
void agent_set_next_region(weft_agent_t *agent, weft_region_t next);

#endif
