// An index of the regions of one owner, by id and by address.
#ifndef AGENT_MEMORY_REGION_INDEX_H
#define AGENT_MEMORY_REGION_INDEX_H

#include <stdint.h>

#include <weft/agent.h>

struct agent_region;

// The same regions by id and by address.
struct agent_ranges {
  struct agent_region **by_id;
  uint32_t count, capacity;
  struct agent_range {
    uint64_t begin, end;
    uint64_t reach; // the highest end of this region and of all before it
    struct agent_region *region;
  } * by_address; // HOST and CUDA only, ascending by begin
  uint32_t num_addresses;
};

// Reserves room for `more` regions, so that agent_ranges_add() of as many cannot fail.
int agent_ranges_reserve(struct agent_ranges *ranges, uint32_t more);
// Adds regions whose ids are not in the index yet. Room has to be reserved.
void agent_ranges_add(struct agent_ranges *ranges, struct agent_region *const *regions, uint32_t count);
void agent_ranges_remove(struct agent_ranges *ranges, const struct agent_region *region);
// Removes `count` regions, chained by `next`, in one pass. They have to be all regions that are marked as gone.
void agent_ranges_remove_gone(struct agent_ranges *ranges, const struct agent_region *first, uint32_t count);
void agent_ranges_free(struct agent_ranges *ranges);

// The region of this id; NULL: there is none.
struct agent_region *agent_ranges_get(const struct agent_ranges *ranges, weft_region_t id);
// The smallest region that contains the whole range, the oldest one of equal size; NULL: no region does.
struct agent_region *agent_ranges_find(const struct agent_ranges *ranges, uint64_t address, uint64_t length);

#endif
