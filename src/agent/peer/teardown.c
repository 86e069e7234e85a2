// The end of a peer: it is not found any more, its requests in flight are stopped, and it is freed when nothing uses it
// any more.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/memory/region.h"
#include "agent/memory/region_index.h"
#include "agent/metrics/metrics.h"
#include "agent/peer/message_recv.h"
#include "agent/peer/message_send.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "base/fail.h"

// Done before the end is reported: from then on the memory may be reused, so no late write may reach it.
static void fence(weft_agent_t *agent, struct agent_peer *peer) {
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    if (!peer->links[i].to || !worker->transport->fence)
      continue;
    agent_worker_lock(worker);
    worker->transport->fence(peer->links[i].to);
    agent_worker_unlock(worker);
  }
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
  agent_credit_close(agent, peer);
  agent_peer_withdraw(agent, peer);
  agent->hooks->stop_transfers(peer);
  agent_outgoing_cancel(peer);
  fence(agent, peer);
  agent->hooks->peer_changed(agent, peer, kind);
  agent_emit_event(agent, peer, kind, peer->why);
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

// The loss of one link is not the peer's end, as long as messages arrive and nothing shows that the process is dead.
static bool is_fatal(const struct agent_link *link) {
  if (link->worker->worker->abilities.flags & TRANSPORT_REPORTS_DEATH)
    return true;
  return link->peer->messenger == link->worker || !link->peer->messenger;
}

// Uses the id, and a copy of the text: without the worker's lock, the link's peer may be freed, and another may take
// its slot.
static void end_failed(weft_agent_t *agent, struct agent_worker *worker) {
  struct agent_link *link;
  do {
    char why[sizeof link->why];
    weft_peer_t id = 0;
    bool fatal = false;
    agent_worker_lock(worker);
    link = worker->failed_links;
    if (link) {
      worker->failed_links = link->next_failed;
      fatal = is_fatal(link);
      id = link->peer->id;
      memcpy(why, link->why, sizeof why);
    }
    agent_worker_unlock(worker);
    if (fatal)
      agent_peer_lost(agent, id, why);
  } while (link);
}

// [worker lock]
static void forget_failed(struct agent_worker *worker, const struct agent_link *link) {
  struct agent_link **place = &worker->failed_links;
  while (*place && *place != link)
    place = &(*place)->next_failed;
  if (*place)
    *place = link->next_failed;
}

static void release(struct agent_region *region, uint32_t worker) {
  if (region->remote[worker])
    region->remote[worker]->peer->worker->transport->release(region->remote[worker]);
  region->remote[worker] = NULL;
}

void agent_peer_tear(weft_agent_t *agent, struct agent_peer *peer) {
  agent_workers_lock(agent);
  agent->hooks->unprepare_transfers(peer);
  agent_outgoing_free(peer);
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_link *link = &peer->links[i];
    for (uint32_t r = 0; r < peer->regions.count; r++)
      release(peer->regions.by_id[r], i);
    for (struct agent_region *region = peer->orphans; region; region = region->next)
      release(region, i);
    if (link->to)
      agent->workers[i].transport->disconnect(link->to);
    link->to = NULL;
    forget_failed(&agent->workers[i], link);
  }
  for (uint32_t i = 0; i < AGENT_MAX_WORKERS; i++)
    agent_metrics_close(&peer->links[i]);
  agent_workers_unlock(agent);
  peer->torn = true;
}

// A transfer may have ended while the thread that posted it is still inside the transport's post().
static bool is_posting(struct weft_transfer *transfer) {
  for (uint32_t i = 0; i < transfer->num_all; i++)
    if (atomic_load(&transfer->all_parts[i].posting))
      return true;
  return false;
}

bool agent_peer_is_quiet(struct agent_peer *peer) {
  for (struct weft_transfer *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    if (agent_transfer_flies(transfer) || is_posting(transfer))
      return false;
  return agent_outgoing_idle(peer);
}

static void free_regions(weft_agent_t *agent, struct agent_peer *peer) {
  agent_workers_lock(agent);
  for (uint32_t i = 0; i < peer->regions.count; i++)
    agent_region_free(agent, peer->regions.by_id[i]);
  struct agent_region *next;
  for (struct agent_region *region = peer->orphans; region; region = next) {
    next = region->next;
    agent_region_free(agent, region);
  }
  peer->orphans = NULL;
  agent_workers_unlock(agent);
  agent_ranges_free(&peer->regions);
  free(peer->gone);
  peer->gone = NULL;
  peer->num_gone = peer->room_gone = 0;
}

void agent_peers_housekeep(weft_agent_t *agent) {
  for (uint32_t i = 0; i < agent->num_workers; i++)
    end_failed(agent, &agent->workers[i]);
  pthread_mutex_lock(&agent->lock);
  struct agent_peer **place = &agent->dying;
  while (*place) {
    struct agent_peer *peer = *place;
    if (!peer->torn && agent_peer_is_quiet(peer))
      agent_peer_tear(agent, peer);
    if (peer->torn && !peer->lists && !peer->transfers && atomic_load(&peer->unread) == 0 &&
        atomic_load(&peer->news) == 0) {
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
    free(agent->peers.slots[i]->end_event);
    free(agent->peers.slots[i]);
  }
  free_regions(agent, &agent->self);
  free(agent->peers.slots);
  free(agent->peers.by_name);
  free(agent->peers.by_mark);
}

int weft_agent_invalidate(weft_agent_t *agent, weft_peer_t id) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (id == WEFT_PEER_SELF)
    return fail(WEFT_ERR_INVALID, "an agent cannot forget itself");
  int rc = weft_agent_check(agent, id);
  if (rc == 0) {
    agent->hooks->forget_peer(agent, id);
    agent_peer_end(agent, id, WEFT_AGENT_EVENT_PEER_LEFT, "its metadata was invalidated");
  }
  return rc;
}
