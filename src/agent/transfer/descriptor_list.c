// Lists of descriptors: each is resolved to its region once, when the list is made.
#include "agent/transfer/descriptor_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/memory/region.h"
#include "agent/memory/region_index.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "base/fail.h"

// The region of descriptor `i`: the region that it names, or the best region for its address.
static int find_region(struct agent_peer *peer, const struct weft_descriptor *descriptor, uint32_t i,
                       struct agent_region *guess, struct agent_region **region) {
  uint64_t address = descriptor->address, length = descriptor->length;
  if (length == 0)
    return fail(WEFT_ERR_INVALID, "descriptor %u has a length of 0", i);
  if (address > UINT64_MAX - length)
    return fail(WEFT_ERR_INVALID, "descriptor %u: %" PRIu64 " bytes from 0x%" PRIx64 " on go beyond all addresses", i,
                length, address);
  if (descriptor->region == 0) {
    *region = agent_ranges_find(&peer->regions, address, length);
    return *region ? 0
                   : fail(WEFT_ERR_NOT_FOUND,
                          "descriptor %u: no region of %s holds the %" PRIu64 " bytes from 0x%" PRIx64 " on", i,
                          peer->name, length, address);
  }
  struct agent_region *named =
      guess && guess->id == descriptor->region ? guess : agent_ranges_get(&peer->regions, descriptor->region);
  if (!named)
    return fail(WEFT_ERR_NOT_FOUND, "descriptor %u: %s has no region %" PRIu64, i, peer->name, descriptor->region);
  char name[120];
  if (address < named->address || length > named->length || address - named->address > named->length - length)
    return fail(WEFT_ERR_INVALID, "descriptor %u: %" PRIu64 " bytes from 0x%" PRIx64 " on are not within %s", i, length,
                address, agent_region_name(named, name, sizeof name));
  *region = named;
  return 0;
}

static int resolve(weft_dlist_t *list, const struct weft_descriptor *descriptors) {
  struct agent_region *region = NULL;
  for (uint32_t i = 0; i < list->count; i++) {
    int rc = find_region(list->peer, &descriptors[i], i, region, &region);
    if (rc != 0)
      return rc;
    if (i == 0)
      list->kind = region->kind;
    if (region->kind != list->kind)
      return fail(WEFT_ERR_INVALID, "descriptor %u is %s, but those before are %s: want one kind in a list", i,
                  agent_kind_name(region->kind), agent_kind_name(list->kind));
    list->spans[i] = (struct agent_span){descriptors[i].address, descriptors[i].length, region};
  }
  return 0;
}

static int by_place(const void *left, const void *right) {
  uintptr_t a = (uintptr_t) * (struct agent_region *const *)left, b = (uintptr_t) * (struct agent_region *const *)right;
  return (a > b) - (a < b);
}

// Its regions, each once.
static int gather(weft_dlist_t *list) {
  list->regions = malloc(list->count * sizeof(struct agent_region *));
  if (!list->regions)
    return fail(WEFT_ERR_NOMEM, "no memory for %u descriptors", list->count);
  uint32_t number = 0;
  for (uint32_t i = 0; i < list->count; i++)
    if (number == 0 || list->regions[number - 1] != list->spans[i].region)
      list->regions[number++] = list->spans[i].region;
  qsort(list->regions, number, sizeof(struct agent_region *), by_place);
  for (uint32_t i = 0; i < number; i++)
    if (i == 0 || list->regions[i] != list->regions[i - 1])
      list->regions[list->num_regions++] = list->regions[i];
  return 0;
}

static void discard(weft_dlist_t *list) {
  if (list)
    free(list->regions);
  if (list)
    free(list->spans);
  free(list);
}

static int create(weft_agent_t *agent, weft_peer_t id, const struct weft_descriptor *descriptors, uint32_t count,
                  weft_dlist_t **made) {
  struct agent_peer *peer;
  int rc = agent_peer_living(agent, id, &peer);
  if (rc != 0)
    return rc;
  weft_dlist_t *list = calloc(1, sizeof *list);
  struct agent_span *spans = malloc(count * sizeof *spans);
  if (!list || !spans) {
    free(spans);
    free(list);
    return fail(WEFT_ERR_NOMEM, "no memory for %u descriptors", count);
  }
  list->agent = agent;
  list->life = agent->life;
  list->peer = peer;
  list->count = count;
  list->spans = spans;
  rc = resolve(list, descriptors);
  if (rc == 0)
    rc = gather(list);
  if (rc != 0) {
    discard(list);
    return rc;
  }
  for (uint32_t i = 0; i < list->num_regions; i++)
    list->regions[i]->lists++;
  list->next = peer->lists;
  list->back = &peer->lists;
  if (list->next)
    list->next->back = &list->next;
  peer->lists = list;
  *made = list;
  return 0;
}

int weft_dlist_create(weft_agent_t *agent, weft_peer_t peer, const struct weft_descriptor *descriptors, uint32_t count,
                      weft_dlist_t **list) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!list || !descriptors)
    return fail(WEFT_ERR_INVALID, "the descriptors or the list is NULL");
  if (count == 0 || count > WEFT_AGENT_MAX_DESCRIPTORS)
    return fail(count == 0 ? WEFT_ERR_INVALID : WEFT_ERR_LIMIT, "a list has 1 to %d descriptors, not %u",
                WEFT_AGENT_MAX_DESCRIPTORS, count);
  pthread_mutex_lock(&agent->lock);
  int rc = create(agent, peer, descriptors, count, list);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

static void free_orphan(weft_agent_t *agent, struct agent_peer *peer, struct agent_region *region) {
  struct agent_region **place = &peer->orphans;
  while (*place != region)
    place = &(*place)->next;
  *place = region->next;
  agent_workers_lock(agent);
  agent_region_free(agent, region);
  agent_workers_unlock(agent);
}

void agent_list_close(weft_dlist_t *list) {
  *list->back = list->next;
  if (list->next)
    list->next->back = list->back;
  for (uint32_t i = 0; i < list->num_regions; i++) {
    struct agent_region *region = list->regions[i];
    if (--region->lists == 0 && region->gone)
      free_orphan(list->agent, list->peer, region);
  }
  list->life = AGENT_CLOSED;
}

int weft_dlist_free(weft_dlist_t *list) {
  if (!list)
    return 0;
  if (forked_since(list->life)) { // closed, or its agent is another process's: there is only memory
    discard(list);
    return 0;
  }
  weft_agent_t *agent = list->agent;
  pthread_mutex_lock(&agent->lock);
  uint32_t users = list->transfers;
  if (users == 0)
    agent_list_close(list);
  pthread_mutex_unlock(&agent->lock);
  if (users > 0)
    return fail(WEFT_ERR_BUSY, "%u transfer%s use%s the list", users, users == 1 ? "" : "s", users == 1 ? "s" : "");
  discard(list);
  return 0;
}
