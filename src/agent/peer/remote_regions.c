// The regions of a peer: regions in a description are added; regions that it lacks, or that the peer reports gone, are
// dropped.
#include "agent/peer/remote_regions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/memory/region.h"
#include "agent/memory/region_index.h"
#include "agent/peer/links.h"
#include "agent/progress/submit.h"
#include "base/fail.h"
#include "base/log.h"

// --- regions of a description ---

// Copies the keys by which workers reach the region, for those workers that have none yet.
static int take_keys(struct agent_region *region, const struct agent_region_description *from, const uint32_t *worker) {
  for (uint32_t i = 0; i < from->num_keys; i++) {
    uint32_t to = worker[from->keys[i].transport];
    if (to == UINT32_MAX || region->keys[to].bytes)
      continue;
    void *bytes = malloc(from->keys[i].size + 1);
    if (!bytes)
      return fail(WEFT_ERR_NOMEM, "no memory for the key of a region");
    memcpy(bytes, from->keys[i].bytes, from->keys[i].size);
    region->keys[to] = (struct agent_key){.transport = to, .size = from->keys[i].size, .bytes = bytes};
  }
  return 0;
}

static struct agent_region *make_region(struct agent_peer *peer, const struct agent_region_description *from,
                                        const uint32_t *worker) {
  struct agent_region *region = calloc(1, sizeof *region);
  if (!region)
    return NULL;
  region->id = from->id;
  region->kind = from->kind;
  region->address = from->address;
  region->length = from->kind >= WEFT_MEMORY_FILE && from->length == 0 ? UINT64_MAX : from->length;
  region->device = from->device;
  region->read_only = from->read_only;
  region->of = peer;
  region->fd = -1;
  if (take_keys(region, from, worker) == 0)
    return region;
  for (uint32_t k = 0; k < AGENT_MAX_WORKERS; k++)
    free((void *)(uintptr_t)region->keys[k].bytes);
  free(region);
  return NULL;
}

// Whether the properties of each region in the description are possible.
static int check_regions(const struct agent_description *description) {
  for (uint32_t i = 0; i < description->num_regions; i++) {
    const struct agent_region_description *region = &description->regions[i];
    bool memory = region->kind < WEFT_MEMORY_FILE;
    if (memory && (region->length == 0 || region->address > UINT64_MAX - region->length))
      return fail(WEFT_ERR_PROTOCOL, "region %" PRIu64 " of %s has %" PRIu64 " bytes from 0x%" PRIx64 " on", region->id,
                  description->name, region->length, region->address);
    if (!memory && region->address != 0)
      return fail(WEFT_ERR_PROTOCOL, "region %" PRIu64 " of %s is %s and begins at 0x%" PRIx64 ": want 0", region->id,
                  description->name, agent_kind_name(region->kind), region->address);
  }
  return 0;
}

static void drop_regions(weft_agent_t *agent, struct agent_region **regions, uint32_t count) {
  agent_workers_lock(agent);
  for (uint32_t i = 0; i < count; i++)
    agent_region_free(agent, regions[i]);
  agent_workers_unlock(agent);
  free(regions);
}

// --- ids that the peer has said to be gone ---

static int compare_ids(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

// Forgets the older half where there is no room for more: ids ascend with time.
static void make_room_for_gone(weft_agent_t *agent, struct agent_peer *peer) {
  if (peer->num_gone < peer->room_gone)
    return;
  uint32_t room = peer->room_gone ? 2 * peer->room_gone : 64;
  uint64_t *larger = room <= AGENT_MAX_REGIONS ? realloc(peer->gone, room * sizeof *larger) : NULL;
  if (larger) {
    peer->gone = larger;
    peer->room_gone = room;
    return;
  }
  log_debug("agent %s: old metadata of %s may bring back regions that were deregistered", agent->name, peer->name);
  qsort(peer->gone, peer->num_gone, sizeof *peer->gone, compare_ids);
  uint32_t half = (peer->num_gone + 1) / 2;
  peer->num_gone -= half;
  memmove(peer->gone, peer->gone + half, peer->num_gone * sizeof *peer->gone);
}

static void keep_gone(weft_agent_t *agent, struct agent_peer *peer, uint64_t id) {
  make_room_for_gone(agent, peer);
  if (peer->num_gone < peer->room_gone)
    peer->gone[peer->num_gone++] = id;
}

// The ids are sorted.
static bool said_gone(const struct agent_peer *peer, uint64_t id) {
  return peer->num_gone > 0 && bsearch(&id, peer->gone, peer->num_gone, sizeof id, compare_ids) != NULL;
}

// Forgets the ids that a description of all regions lacks: it was made after their end, and nothing older than it is
// taken from now on.
static void forget_gone(struct agent_peer *peer, const struct agent_description *description) {
  uint32_t place = 0, kept = 0;
  for (uint32_t i = 0; i < peer->num_gone; i++) {
    while (place < description->num_regions && description->regions[place].id < peer->gone[i])
      place++;
    if (place < description->num_regions && description->regions[place].id == peer->gone[i])
      peer->gone[kept++] = peer->gone[i];
  }
  peer->num_gone = kept;
}

// --- adding ---

// Makes the regions that the peer is not known to have: an id never means another region later.
static int make_new(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                    struct agent_region ***made, uint32_t *count) {
  uint32_t worker[AGENT_MAX_TRANSPORTS];
  agent_links_match(agent, description, worker);
  int rc = check_regions(description);
  if (rc != 0)
    return rc;
  struct agent_region **regions = calloc(description->num_regions + 1, sizeof *regions);
  uint32_t number = 0;
  bool enough = regions != NULL;
  for (uint32_t i = 0; enough && i < description->num_regions; i++) {
    uint64_t id = description->regions[i].id;
    if (agent_ranges_get(&peer->regions, id) || said_gone(peer, id))
      continue;
    if (peer->regions.count + number >= AGENT_MAX_REGIONS || agent->foreign >= AGENT_MAX_FOREIGN) {
      uint32_t held = agent->foreign - number;
      drop_regions(agent, regions, number);
      return fail(WEFT_ERR_LIMIT,
                  "%s has too many regions: %u of it are known, and %u of all peers; want at most %d and %d",
                  description->name, peer->regions.count, held, AGENT_MAX_REGIONS, AGENT_MAX_FOREIGN);
    }
    regions[number] = make_region(peer, &description->regions[i], worker);
    enough = regions[number] != NULL;
    number += enough;
    agent->foreign += enough;
  }
  if (!enough || agent_ranges_reserve(&peer->regions, number) != 0) {
    drop_regions(agent, regions, number);
    return fail(WEFT_ERR_NOMEM, "no memory for the %u regions of %s", description->num_regions, description->name);
  }
  *made = regions;
  *count = number;
  return 0;
}

int agent_remote_regions_add(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             bool *changed) {
  struct agent_region **made = NULL;
  uint32_t count = 0;
  if (peer->num_gone > 0)
    qsort(peer->gone, peer->num_gone, sizeof *peer->gone, compare_ids);
  int rc = make_new(agent, peer, description, &made, &count);
  if (rc != 0)
    return rc;
  agent_ranges_add(&peer->regions, made, count);
  free(made);
  *changed = count > 0;
  return 0;
}

void agent_remote_regions_add_keys(weft_agent_t *agent, struct agent_peer *peer,
                                   const struct agent_description *description) {
  uint32_t worker[AGENT_MAX_TRANSPORTS];
  agent_links_match(agent, description, worker);
  for (uint32_t i = 0; i < description->num_regions; i++) {
    struct agent_region *known = agent_ranges_get(&peer->regions, description->regions[i].id);
    if (known && take_keys(known, &description->regions[i], worker) != 0)
      log_warn("agent %s: %s", agent->name, weft_last_error());
  }
}

// --- dropping ---

// Regions of a peer that go, chained by `next`.
struct going {
  struct agent_region *first;
  uint32_t count;
  bool listed; // lists use some of them
};

static void mark_gone(struct going *going, struct agent_region *region) {
  region->gone = true;
  region->next = going->first;
  going->first = region;
  going->count++;
  going->listed |= region->lists > 0;
}

// Makes transfers to regions of the peer that have gone fail. [lock]
static void break_lists(struct agent_peer *peer) {
  for (weft_dlist_t *list = peer->lists; list; list = list->next)
    for (uint32_t i = 0; i < list->num_regions; i++)
      if (list->regions[i]->gone)
        atomic_store(&list->broken, list->regions[i]->id);
}

// Regions that lists use stay until the lists are freed, but are not found any more. All at once: a peer may have very
// many.
static void drop(weft_agent_t *agent, struct agent_peer *peer, const struct going *going) {
  struct agent_region *next;
  if (going->count == 0)
    return;
  agent_ranges_remove_gone(&peer->regions, going->first, going->count);
  if (going->listed)
    break_lists(peer);
  agent_workers_lock(agent);
  for (struct agent_region *region = going->first; region; region = next) {
    next = region->next;
    if (region->lists == 0) {
      agent_region_free(agent, region);
      continue;
    }
    region->next = peer->orphans;
    peer->orphans = region;
  }
  agent_workers_unlock(agent);
}

bool agent_remote_regions_drop_others(weft_agent_t *agent, struct agent_peer *peer,
                                      const struct agent_description *description) {
  struct going going = {0};
  uint32_t place = 0;
  for (uint32_t i = 0; i < peer->regions.count; i++) {
    struct agent_region *region = peer->regions.by_id[i];
    while (place < description->num_regions && description->regions[place].id < region->id)
      place++;
    if (place == description->num_regions || description->regions[place].id != region->id)
      mark_gone(&going, region);
  }
  drop(agent, peer, &going);
  forget_gone(peer, description);
  return going.count > 0;
}

void agent_remote_regions_drop(weft_agent_t *agent, weft_peer_t id, const uint64_t *ids, uint32_t count) {
  struct going going = {0};
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = id == WEFT_PEER_SELF ? NULL : agent_peer_get(agent, id);
  for (uint32_t i = 0; peer && peer->state == AGENT_PEER_ALIVE && i < count; i++) {
    struct agent_region *region = agent_ranges_get(&peer->regions, ids[i]);
    if (region && !region->gone) { // it may be named twice
      mark_gone(&going, region);
      keep_gone(agent, peer, region->id);
    }
  }
  if (going.count > 0) {
    drop(agent, peer, &going);
    agent->hooks->peer_changed(agent, peer, WEFT_AGENT_EVENT_PEER_UPDATED);
    agent_emit_event(agent, peer, WEFT_AGENT_EVENT_PEER_UPDATED, "");
  }
  pthread_mutex_unlock(&agent->lock);
}
