// The table of peers: slots and generations, by name, and by the mark of their messages.
#include "agent/peer/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/progress/submit.h"
#include "agent/progress/worker.h"
#include "base/fail.h"
#include "base/random.h"

// So many ended peers keep their slots, so that calls with them still get the reason of their end.
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
    return fail(WEFT_ERR_PEER_LOST, "peer %" PRIu64 " has been gone for a long time", id);
  return fail(
      WEFT_ERR_NOT_FOUND,
      "there is no peer %" PRIu64 ": weft_agent_load, weft_agent_fetch and weft_agent_meet give peers their ids", id);
}

int agent_peer_living(weft_agent_t *agent, weft_peer_t id, struct agent_peer **peer) {
  struct agent_peer *found = agent_peer_get(agent, id);
  if (!found || found->state != AGENT_PEER_ALIVE)
    return agent_peer_fail(agent, id);
  *peer = found;
  return 0;
}

bool agent_peer_lives(weft_agent_t *agent, weft_peer_t id) {
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = id ? agent_peer_get(agent, id) : NULL;
  bool lives = peer && peer->state == AGENT_PEER_ALIVE;
  pthread_mutex_unlock(&agent->lock);
  return lives;
}

static uint32_t hash_name(const char *name) {
  return (uint32_t)random_mix_text(0, name);
}

struct agent_peer *agent_peer_named(weft_agent_t *agent, const char *name) {
  struct agent_peer *peer = agent->peers.by_name ? agent->peers.by_name[hash_name(name) & agent->peers.mask] : NULL;
  while (peer && strcmp(peer->name, name) != 0)
    peer = peer->next_by_name;
  return peer;
}

struct agent_peer *agent_peer_of(weft_agent_t *agent, uint64_t mark) {
  struct agent_peers *peers = &agent->peers;
  if (mark == agent->self.mark_in)
    return &agent->self;
  struct agent_peer *peer = peers->by_mark ? peers->by_mark[random_mix(mark) & peers->mask] : NULL;
  while (peer && peer->mark_in != mark)
    peer = peer->next_by_mark;
  return peer;
}

static void chain(struct agent_peers *peers, struct agent_peer *peer) {
  struct agent_peer **name = &peers->by_name[hash_name(peer->name) & peers->mask];
  struct agent_peer **mark = &peers->by_mark[random_mix(peer->mark_in) & peers->mask];
  peer->next_by_name = *name;
  peer->next_by_mark = *mark;
  *name = *mark = peer;
}

static void unchain(struct agent_peers *peers, struct agent_peer *peer) {
  struct agent_peer **name = &peers->by_name[hash_name(peer->name) & peers->mask];
  while (*name != peer)
    name = &(*name)->next_by_name;
  *name = peer->next_by_name;
  struct agent_peer **mark = &peers->by_mark[random_mix(peer->mark_in) & peers->mask];
  while (*mark != peer)
    mark = &(*mark)->next_by_mark;
  *mark = peer->next_by_mark;
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
  struct agent_peer **by_mark = calloc(capacity, sizeof *by_mark);
  if (!slots || !by_name || !by_mark) {
    free(by_name);
    free(by_mark);
    return fail(WEFT_ERR_NOMEM, "no memory for %u peers", capacity);
  }
  struct agent_peers old = *peers;
  agent_workers_lock(agent);
  peers->by_name = by_name;
  peers->by_mark = by_mark;
  peers->mask = capacity - 1;
  peers->capacity = capacity;
  for (uint32_t i = 0; old.by_name && i <= old.mask; i++) {
    struct agent_peer *next;
    for (struct agent_peer *peer = old.by_name[i]; peer; peer = next) {
      next = peer->next_by_name;
      chain(peers, peer);
    }
  }
  agent_workers_unlock(agent);
  free(old.by_name);
  free(old.by_mark);
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
  free(peer->end_event);
  peer->end_event = NULL;
  bool used = peer->name[0]; // else its load failed, and there is nothing to remember
  peer->next = used ? NULL : peers->free_first;
  if (!used || !peers->free_first)
    peers->free_first = peer;
  else
    peers->free_last->next = peer;
  if (!peer->next)
    peers->free_last = peer;
  peers->num_free++;
}

void agent_peer_enter(weft_agent_t *agent, struct agent_peer *peer) {
  agent_workers_lock(agent);
  chain(&agent->peers, peer);
  agent_workers_unlock(agent);
  agent->peers.living++;
}

void agent_peer_withdraw(weft_agent_t *agent, struct agent_peer *peer) {
  agent_workers_lock(agent);
  unchain(&agent->peers, peer);
  agent_workers_unlock(agent);
  agent->peers.living--;
}

static int connect_self(struct agent_link *link) {
  struct agent_worker *worker = link->worker;
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  char owner[AGENT_OWNER];
  agent_owner(owner, worker->agent->name, worker->agent->incarnation);
  agent_worker_lock(worker);
  int rc = worker->transport->address(worker->worker, address, &size);
  if (rc == 0)
    rc = worker->transport->connect(worker->worker, address, size, owner, &link->to);
  if (rc == 0)
    link->to->arg = link;
  else
    snprintf(link->why, sizeof link->why, "%s", weft_last_error());
  agent_worker_unlock(worker);
  return rc;
}

struct agent_link *agent_link_get(struct agent_peer *peer, struct agent_worker *worker) {
  struct agent_link *link = &peer->links[worker->index];
  if (!link->to && !link->why[0] && peer->id == WEFT_PEER_SELF)
    connect_self(link);
  return link->to && atomic_load(&link->failed) == 0 ? link : NULL;
}

int weft_agent_find(weft_agent_t *agent, const char *name, weft_peer_t *peer) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!name || !peer)
    return fail(WEFT_ERR_INVALID, "the name or the peer is NULL");
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
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *found;
  int rc = agent_peer_living(agent, peer, &found);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}
