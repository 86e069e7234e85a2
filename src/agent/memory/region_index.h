// Regions of one owner: found by id, and by address.
#ifndef AGENT_MEMORY_REGION_INDEX_H
#define AGENT_MEMORY_REGION_INDEX_H

#include <stdint.h>

#include <weft/agent.h>

struct agent_region;

// Regions by id, and by address.
struct agent_ranges {
  struct agent_region **by_id;
  uint32_t count, capacity;
  struct agent_range {
    uint64_t begin, end;
    uint64_t reach; // the highest end of this one and those before
    struct agent_region *region;
  } * by_address; // HOST and CUDA only, ascending by begin
  uint32_t num_addresses;
};

// Room for `more` regions, so that as many agent_ranges_add() cannot fail.
int agent_ranges_reserve(struct agent_ranges *ranges, uint32_t more);
// Adds regions whose ids are not there yet. Room was reserved.
void agent_ranges_add(struct agent_ranges *ranges, struct agent_region *const *regions, uint32_t count);
void agent_ranges_remove(struct agent_ranges *ranges, const struct agent_region *region);
// Removes `count` regions, chained by `next`, which are all that are marked as gone: many of them in one pass.
void agent_ranges_remove_gone(struct agent_ranges *ranges, const struct agent_region *first, uint32_t count);
void agent_ranges_free(struct agent_ranges *ranges);

// NULL: there is none of this id.
struct agent_region *agent_ranges_get(const struct agent_ranges *ranges, weft_region_t id);
// The smallest region that holds all of it, the oldest of equals; NULL: none does.
struct agent_region *agent_ranges_find(const struct agent_ranges *ranges, uint64_t address, uint64_t length);

#endif
