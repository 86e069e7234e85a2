#include "agent/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inbox.h"
#include "agent/notify.h"
#include "agent/ranges.h"
#include "agent/region.h"
#include "agent/transfer.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/random.h"

// So many ended peers keep their slots, so that what is asked of them still gets the reason.
enum { REMEMBERED = 256 };

#define SLOT_MASK ((UINT64_C(1) << AGENT_PEER_SLOT_BITS) - 1)

struct agent_peer *agent_peer_get(weft_agent_t *agent, weft_peer_t id) {
  if (id == WEFT_PEER_SELF)
    return &agent->self;
  uint64_t slot = (id & SLOT_MASK) - 1;
  if (slot >= agent->peers.count)
    return NULL;
  struct agent_peer *peer = agent->peers.slots[slot];
  return peer->id == id && peer->name[0] ? peer : NULL;
}

int agent_peer_fail(weft_agent_t *agent, weft_peer_t id) {
  struct agent_peer *peer = agent_peer_get(agent, id);
  if (peer && peer->state != AGENT_PEER_ALIVE)
    return fail(WEFT_ERR_PEER_LOST, "%s %s: %s" AGENT_COME_BACK, peer->name,
                peer->state == AGENT_PEER_LEFT ? "has left" : "is lost", peer->why);
  uint64_t slot = (id & SLOT_MASK) - 1;
  if (!peer && slot < agent->peers.count && agent->peers.slots[slot]->id > id)
    return fail(WEFT_ERR_PEER_LOST, "peer %" PRIu64 " has been gone for long", id);
  return fail(WEFT_ERR_NOT_FOUND, "there is no peer %" PRIu64, id);
}

int agent_peer_living(weft_agent_t *agent, weft_peer_t id, struct agent_peer **peer) {
  struct agent_peer *found = agent_peer_get(agent, id);
  if (!found || found->state != AGENT_PEER_ALIVE)
    return agent_peer_fail(agent, id);
  *peer = found;
  return 0;
}

static uint32_t hash_name(const char *name) {
  uint64_t hash = 0;
  for (; *name; name++)
    hash = random_mix(hash ^ (unsigned char)*name);
  return (uint32_t)hash;
}

struct agent_peer *agent_peer_named(weft_agent_t *agent, const char *name) {
  struct agent_peer *peer = agent->peers.by_name ? agent->peers.by_name[hash_name(name) & agent->peers.mask] : NULL;
  while (peer && strcmp(peer->name, name) != 0)
    peer = peer->next_by_name;
  return peer;
}

struct agent_peer *agent_peer_of(weft_agent_t *agent, uint64_t incarnation) {
  struct agent_peers *peers = &agent->peers;
  struct agent_peer *peer = peers->by_incarnation ? peers->by_incarnation[random_mix(incarnation) & peers->mask] : NULL;
  while (peer && peer->incarnation != incarnation)
    peer = peer->next_by_incarnation;
  return peer;
}

static void chain(struct agent_peers *peers, struct agent_peer *peer) {
  struct agent_peer **name = &peers->by_name[hash_name(peer->name) & peers->mask];
  struct agent_peer **incarnation = &peers->by_incarnation[random_mix(peer->incarnation) & peers->mask];
  peer->next_by_name = *name;
  peer->next_by_incarnation = *incarnation;
  *name = *incarnation = peer;
}

static void unchain(struct agent_peers *peers, struct agent_peer *peer) {
  struct agent_peer **name = &peers->by_name[hash_name(peer->name) & peers->mask];
  while (*name != peer)
    name = &(*name)->next_by_name;
  *name = peer->next_by_name;
  struct agent_peer **incarnation = &peers->by_incarnation[random_mix(peer->incarnation) & peers->mask];
  while (*incarnation != peer)
    incarnation = &(*incarnation)->next_by_incarnation;
  *incarnation = peer->next_by_incarnation;
}

// Tables for one more peer than there are slots.
static int grow(struct agent_peers *peers, weft_agent_t *agent) {
  uint32_t capacity = peers->capacity ? 2 * peers->capacity : 16;
  if (capacity > SLOT_MASK)
    return fail(WEFT_ERR_LIMIT, "%u peers are the most that an agent knows", peers->capacity);
  struct agent_peer **slots = realloc(peers->slots, capacity * sizeof *slots);
  if (slots)
    peers->slots = slots;
  struct agent_peer **by_name = calloc(capacity, sizeof *by_name);
  struct agent_peer **by_incarnation = calloc(capacity, sizeof *by_incarnation);
  if (!slots || !by_name || !by_incarnation) {
    free(by_name);
    free(by_incarnation);
    return fail(WEFT_ERR_NOMEM, "no memory for %u peers", capacity);
  }
  struct agent_peers old = *peers;
  agent_turns_take(agent);
  peers->by_name = by_name;
  peers->by_incarnation = by_incarnation;
  peers->mask = capacity - 1;
  peers->capacity = capacity;
  for (uint32_t i = 0; old.by_name && i <= old.mask; i++) {
    struct agent_peer *next;
    for (struct agent_peer *peer = old.by_name[i]; peer; peer = next) {
      next = peer->next_by_name;
      chain(peers, peer);
    }
  }
  agent_turns_give(agent);
  free(old.by_name);
  free(old.by_incarnation);
  return 0;
}

int agent_peer_new(weft_agent_t *agent, struct agent_peer **made) {
  struct agent_peers *peers = &agent->peers;
  struct agent_peer *peer;
  if (peers->num_free > REMEMBERED || (peers->num_free > 0 && !peers->free_first->name[0])) {
    peer = peers->free_first;
    peers->free_first = peer->next;
    peers->num_free--;
    weft_peer_t id = peer->id + SLOT_MASK + 1;
    memset(peer, 0, sizeof *peer);
    peer->id = id;
  } else {
    int rc = peers->count == peers->capacity ? grow(peers, agent) : 0;
    if (rc != 0)
      return rc;
    peer = calloc(1, sizeof *peer);
    if (!peer)
      return fail(WEFT_ERR_NOMEM, "no memory for a peer");
    peers->slots[peers->count] = peer;
    peer->id = ++peers->count;
  }
  for (uint32_t i = 0; i < agent->num_workers; i++)
    peer->links[i] = (struct agent_link){.peer = peer, .worker = &agent->workers[i]};
  *made = peer;
  return 0;
}

void agent_peer_recycle(weft_agent_t *agent, struct agent_peer *peer) {
  struct agent_peers *peers = &agent->peers;
  peer->next = NULL;
  if (peers->num_free++ == 0)
    peers->free_first = peer;
  else
    peers->free_last->next = peer;
  peers->free_last = peer;
}

void agent_peer_enter(weft_agent_t *agent, struct agent_peer *peer) {
  agent_turns_take(agent);
  chain(&agent->peers, peer);
  agent_turns_give(agent);
  agent->peers.living++;
}

static int connect_self(struct agent_link *link) {
  struct agent_worker *worker = link->worker;
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  agent_turn_take(worker);
  int rc = worker->transport->address(worker->worker, address, &size);
  if (rc == 0)
    rc = worker->transport->connect(worker->worker, address, size, &link->to);
  if (rc == 0)
    link->to->arg = link;
  else
    snprintf(link->why, sizeof link->why, "%s", weft_last_error());
  agent_turn_give(worker);
  return rc;
}

struct agent_link *agent_link_get(struct agent_peer *peer, struct agent_worker *worker) {
  struct agent_link *link = &peer->links[worker->index];
  if (!link->to && !link->why[0] && peer->id == WEFT_PEER_SELF)
    connect_self(link);
  return link->to && atomic_load(&link->failed) == 0 ? link : NULL;
}

void agent_tell(weft_agent_t *agent, const struct agent_peer *peer, enum weft_agent_event_kind kind,
                const char *detail) {
  struct weft_agent_event event = {
      .kind = kind, .peer = peer->id, .name = peer->name, .time_ns = clock_ns(), .detail = detail};
  if (agent->options.on_event)
    agent->options.on_event(agent->options.event_arg, &event);
  agent_inbox_signal(agent);
}

void agent_peer_end(weft_agent_t *agent, weft_peer_t id, enum weft_agent_event_kind kind, const char *why) {
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = agent_peer_get(agent, id);
  if (!peer || id == WEFT_PEER_SELF || peer->state != AGENT_PEER_ALIVE) {
    pthread_mutex_unlock(&agent->lock);
    return;
  }
  peer->state = kind == WEFT_AGENT_EVENT_PEER_LEFT ? AGENT_PEER_LEFT : AGENT_PEER_LOST;
  snprintf(peer->why, sizeof peer->why, "%s", why && *why ? why : "no reason is known");
  atomic_store(&peer->failed, WEFT_ERR_PEER_LOST); // from here on no post begins
  agent_turns_take(agent);
  unchain(&agent->peers, peer);
  agent_turns_give(agent);
  agent->peers.living--;
  for (struct weft_transfer *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    if (agent_transfer_flies(transfer))
      agent_transfer_stop(transfer, atomic_load(&transfer->number), WEFT_ERR_PEER_LOST);
  agent_letters_cancel(peer);
  agent_meta_peer(agent, peer, kind);
  agent_tell(agent, peer, kind, peer->why);
  peer->next = agent->dying;
  agent->dying = peer;
  pthread_mutex_unlock(&agent->lock);
  atomic_store(&agent->attention, true);
  agent_wake(agent);
}

void agent_peer_failed(void *arg, struct transport_peer *to, int err, const char *why) {
  struct agent_worker *worker = arg;
  struct agent_link *link = to->arg;
  if (!link || atomic_load(&link->failed) != 0)
    return;
  snprintf(link->why, sizeof link->why, "%s: %s", worker->transport->name, why ? why : weft_strerror(err));
  atomic_store(&link->failed, err != 0 ? err : WEFT_ERR_PEER_LOST);
  link->next_failed = worker->failed_links;
  worker->failed_links = link;
  atomic_store(&worker->agent->attention, true);
}

// A link less is not the end, as long as messages come through and nobody says that the process is dead.
static bool is_fatal(const struct agent_link *link) {
  if (link->worker->worker->abilities.flags & TRANSPORT_TELLS_DEATH)
    return true;
  return link->peer->messenger == link->worker || !link->peer->messenger;
}

static void end_failed(weft_agent_t *agent, struct agent_worker *worker) {
  agent_turn_take(worker);
  struct agent_link *link = worker->failed_links;
  worker->failed_links = NULL;
  agent_turn_give(worker);
  while (link) {
    struct agent_link *next = link->next_failed;
    if (is_fatal(link))
      agent_peer_lost(agent, link->peer->id, link->why);
    link = next;
  }
}

static void release(struct agent_region *region, uint32_t worker) {
  if (region->remote[worker])
    region->remote[worker]->peer->worker->transport->release(region->remote[worker]);
  region->remote[worker] = NULL;
}

void agent_peer_tear(weft_agent_t *agent, struct agent_peer *peer) {
  agent_turns_take(agent);
  for (struct weft_transfer *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    agent_transfer_unprepare(transfer);
  agent_letters_free(peer);
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_link *link = &peer->links[i];
    for (uint32_t r = 0; r < peer->regions.count; r++)
      release(peer->regions.by_id[r], i);
    for (struct agent_region *region = peer->orphans; region; region = region->next)
      release(region, i);
    if (link->to)
      agent->workers[i].transport->disconnect(link->to);
    link->to = NULL;
  }
  for (uint32_t i = 0; i < AGENT_MAX_WORKERS; i++)
    agent_metrics_close(&peer->links[i]);
  agent_turns_give(agent);
  peer->torn = true;
}

// A transfer may have ended while who posted it is still inside the transport's post().
static bool is_posting(struct weft_transfer *transfer) {
  for (uint32_t i = 0; i < transfer->num_parts; i++)
    if (atomic_load(&transfer->parts[i].posting))
      return true;
  return false;
}

bool agent_peer_is_quiet(struct agent_peer *peer) {
  for (struct weft_transfer *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    if (agent_transfer_flies(transfer) || is_posting(transfer))
      return false;
  return agent_letters_idle(peer);
}

static void free_regions(weft_agent_t *agent, struct agent_peer *peer) {
  agent_turns_take(agent);
  for (uint32_t i = 0; i < peer->regions.count; i++)
    agent_region_free(agent, peer->regions.by_id[i]);
  struct agent_region *next;
  for (struct agent_region *region = peer->orphans; region; region = next) {
    next = region->next;
    agent_region_free(agent, region);
  }
  peer->orphans = NULL;
  agent_turns_give(agent);
  agent_ranges_free(&peer->regions);
}

void agent_peers_tend(weft_agent_t *agent) {
  for (uint32_t i = 0; i < agent->num_workers; i++)
    end_failed(agent, &agent->workers[i]);
  pthread_mutex_lock(&agent->lock);
  struct agent_peer **place = &agent->dying;
  while (*place) {
    struct agent_peer *peer = *place;
    if (!peer->torn && agent_peer_is_quiet(peer))
      agent_peer_tear(agent, peer);
    if (peer->torn && !peer->lists && !peer->transfers && atomic_load(&peer->unread) == 0) {
      *place = peer->next;
      free_regions(agent, peer);
      agent_peer_recycle(agent, peer);
    } else {
      place = &peer->next;
    }
  }
  pthread_mutex_unlock(&agent->lock);
}

bool agent_peers_dying(weft_agent_t *agent) {
  pthread_mutex_lock(&agent->lock);
  bool dying = false;
  for (struct agent_peer *peer = agent->dying; peer && !dying; peer = peer->next)
    dying = !peer->torn;
  pthread_mutex_unlock(&agent->lock);
  return dying;
}

void agent_peers_free(weft_agent_t *agent) {
  for (uint32_t i = 0; i < agent->peers.count; i++) {
    free_regions(agent, agent->peers.slots[i]);
    free(agent->peers.slots[i]);
  }
  free_regions(agent, &agent->self);
  free(agent->peers.slots);
  free(agent->peers.by_name);
  free(agent->peers.by_incarnation);
}

int weft_agent_find(weft_agent_t *agent, const char *name, weft_peer_t *peer) {
  if (!agent || !name || !peer)
    return fail(WEFT_ERR_INVALID, "the agent, name or peer is NULL");
  if (strcmp(name, agent->name) == 0) {
    *peer = WEFT_PEER_SELF;
    return 0;
  }
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *found = agent_peer_named(agent, name);
  if (found)
    *peer = found->id;
  pthread_mutex_unlock(&agent->lock);
  return found ? 0 : fail(WEFT_ERR_NOT_FOUND, "no living peer is named %s", name);
}

int weft_agent_check(weft_agent_t *agent, weft_peer_t peer) {
  if (!agent)
    return fail(WEFT_ERR_INVALID, "the agent is NULL");
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *found;
  int rc = agent_peer_living(agent, peer, &found);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

int weft_agent_invalidate(weft_agent_t *agent, weft_peer_t id) {
  if (!agent || id == WEFT_PEER_SELF)
    return fail(WEFT_ERR_INVALID, agent ? "an agent cannot forget itself" : "the agent is NULL");
  int rc = weft_agent_check(agent, id);
  if (rc == 0) {
    agent_meta_forget(agent, id);
    agent_peer_end(agent, id, WEFT_AGENT_EVENT_PEER_LEFT, "its metadata was invalidated");
  }
  return rc;
}
