// Regions of one owner in two sorted arrays: by id, and by address.
#include "agent/memory/region_index.h"

#include <stdlib.h>
#include <string.h>

#include "agent/memory/region.h"
#include "base/fail.h"

int agent_ranges_reserve(struct agent_ranges *ranges, uint32_t more) {
  if (more <= ranges->capacity - ranges->count)
    return 0;
  uint32_t capacity = ranges->count + more > 2 * ranges->capacity ? ranges->count + more : 2 * ranges->capacity;
  struct agent_region **by_id = realloc(ranges->by_id, capacity * sizeof *by_id);
  if (!by_id)
    return fail(WEFT_ERR_NOMEM, "no memory for %u regions", capacity);
  ranges->by_id = by_id;
  struct agent_range *by_address = realloc(ranges->by_address, capacity * sizeof *by_address);
  if (!by_address)
    return fail(WEFT_ERR_NOMEM, "no memory for %u regions", capacity);
  ranges->by_address = by_address;
  ranges->capacity = capacity;
  return 0;
}

enum { FEW = 4 }; // regions that are added or removed one by one

static bool has_address(const struct agent_region *region) {
  return region->kind == WEFT_MEMORY_HOST || region->kind == WEFT_MEMORY_CUDA;
}

static int by_begin(const void *left, const void *right) {
  const struct agent_range *a = left, *b = right;
  if (a->begin != b->begin)
    return a->begin < b->begin ? -1 : 1;
  return (a->region->id > b->region->id) - (a->region->id < b->region->id);
}

static int by_id(const void *left, const void *right) {
  const struct agent_region *const *a = left, *const *b = right;
  return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

static void reckon_reach(struct agent_ranges *ranges, uint32_t from) {
  for (uint32_t i = from; i < ranges->num_addresses; i++) {
    struct agent_range *range = &ranges->by_address[i];
    uint64_t before = i > 0 ? range[-1].reach : 0;
    range->reach = range->end > before ? range->end : before;
  }
}

// The first range that begins behind `address`.
static uint32_t behind(const struct agent_ranges *ranges, uint64_t address) {
  uint32_t low = 0, high = ranges->num_addresses;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ranges->by_address[middle].begin <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void insert_one(struct agent_ranges *ranges, struct agent_range range) {
  uint32_t place = behind(ranges, range.begin);
  memmove(&ranges->by_address[place + 1], &ranges->by_address[place],
          (ranges->num_addresses - place) * sizeof *ranges->by_address);
  ranges->by_address[place] = range;
  ranges->num_addresses++;
  reckon_reach(ranges, place);
}

void agent_ranges_add(struct agent_ranges *ranges, struct agent_region *const *regions, uint32_t count) {
  bool many = count > FEW, ordered = true;
  for (uint32_t i = 0; i < count; i++) {
    struct agent_region *region = regions[i];
    ordered &= ranges->count == 0 || ranges->by_id[ranges->count - 1]->id < region->id;
    ranges->by_id[ranges->count++] = region;
    if (!has_address(region))
      continue;
    struct agent_range range = {region->address, region->address + region->length, 0, region};
    if (many)
      ranges->by_address[ranges->num_addresses++] = range;
    else
      insert_one(ranges, range);
  }
  if (!ordered)
    qsort(ranges->by_id, ranges->count, sizeof *ranges->by_id, by_id);
  if (many) {
    qsort(ranges->by_address, ranges->num_addresses, sizeof *ranges->by_address, by_begin);
    reckon_reach(ranges, 0);
  }
}

// Where the first region with an id of at least `id` stands.
static uint32_t place_of(const struct agent_ranges *ranges, weft_region_t id) {
  uint32_t low = 0, high = ranges->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ranges->by_id[middle]->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void agent_ranges_remove(struct agent_ranges *ranges, const struct agent_region *region) {
  uint32_t place = place_of(ranges, region->id);
  memmove(&ranges->by_id[place], &ranges->by_id[place + 1], (ranges->count - place - 1) * sizeof *ranges->by_id);
  ranges->count--;
  if (!has_address(region))
    return;
  uint32_t i = behind(ranges, region->address);
  while (ranges->by_address[i - 1].region != region)
    i--;
  memmove(&ranges->by_address[i - 1], &ranges->by_address[i], (ranges->num_addresses - i) * sizeof *ranges->by_address);
  ranges->num_addresses--;
  reckon_reach(ranges, i - 1);
}

void agent_ranges_remove_gone(struct agent_ranges *ranges, const struct agent_region *first, uint32_t count) {
  uint32_t ids = 0, addresses = 0;
  if (count <= FEW) {
    for (; first; first = first->next)
      agent_ranges_remove(ranges, first);
    return;
  }
  for (uint32_t i = 0; i < ranges->count; i++)
    if (!ranges->by_id[i]->gone)
      ranges->by_id[ids++] = ranges->by_id[i];
  for (uint32_t i = 0; i < ranges->num_addresses; i++)
    if (!ranges->by_address[i].region->gone)
      ranges->by_address[addresses++] = ranges->by_address[i];
  ranges->count = ids;
  ranges->num_addresses = addresses;
  reckon_reach(ranges, 0);
}

void agent_ranges_free(struct agent_ranges *ranges) {
  free(ranges->by_id);
  free(ranges->by_address);
  *ranges = (struct agent_ranges){0};
}

struct agent_region *agent_ranges_get(const struct agent_ranges *ranges, weft_region_t id) {
  uint32_t place = place_of(ranges, id);
  return place < ranges->count && ranges->by_id[place]->id == id ? ranges->by_id[place] : NULL;
}

struct agent_region *agent_ranges_find(const struct agent_ranges *ranges, uint64_t address, uint64_t length) {
  struct agent_region *best = NULL;
  uint64_t end = address + length;
  if (end < address)
    return NULL;
  for (uint32_t i = behind(ranges, address); i-- > 0 && ranges->by_address[i].reach >= end;) {
    struct agent_region *region = ranges->by_address[i].region;
    if (best && best->length < end - ranges->by_address[i].begin)
      break; // a region that begins here or before, and contains the range, is larger
    if (ranges->by_address[i].end < end)
      continue;
    if (!best || region->length < best->length || (region->length == best->length && region->id < best->id))
      best = region;
  }
  return best;
}
