// Small messages to peers: ids of regions that have gone, and the notice that this agent has forgotten the peer. A peer
// that the application itself loaded gets no new regions this way: the application chose the regions that it knows.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/peer/message_send.h"
#include "agent/peer/remote_regions.h"
#include "agent/services.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "base/wire/wire.h"

enum news { NEWS_GONE = 1, NEWS_FORGOTTEN = 2 }; // the first byte; GONE: ids (u64) follow

enum { IDS_AT_ONCE = 256 };

void liveness_region_gone(weft_agent_t *agent, uint64_t region) {
  struct agent_services *services = agent->services;
  if (!services)
    return;
  if (services->num_gone == services->room_gone) {
    uint32_t room = services->room_gone ? 2 * services->room_gone : IDS_AT_ONCE;
    uint64_t *larger = realloc(services->gone, room * sizeof *larger);
    if (!larger) {
      log_warn("agent %s: no memory to publish which regions are gone", agent->name);
      return;
    }
    services->gone = larger;
    services->room_gone = room;
  }
  services->gone[services->num_gone++] = region;
}

// Those from number `at` on, as many as one message takes; their number.
static uint32_t copy_gone(struct agent_services *services, uint64_t at, uint64_t ids[IDS_AT_ONCE]) {
  pthread_mutex_lock(&services->agent->lock);
  uint64_t place = at - services->gone_before;
  uint32_t count = place < services->num_gone ? services->num_gone - (uint32_t)place : 0;
  count = count < IDS_AT_ONCE ? count : IDS_AT_ONCE;
  if (count > 0)
    memcpy(ids, services->gone + place, count * sizeof *ids);
  pthread_mutex_unlock(&services->agent->lock);
  return count;
}

// Messages that cannot be sent now are sent later.
static void send_gone(struct agent_services *services, struct agent_peer *peer) {
  uint64_t ids[IDS_AT_ONCE];
  uint32_t count;
  if (peer->gone_sent < services->gone_before)
    peer->gone_sent = services->gone_before;
  while (!agent_outgoing_full(peer) && (count = copy_gone(services, peer->gone_sent, ids)) > 0) {
    uint8_t bytes[1 + 8 * IDS_AT_ONCE];
    struct wire_writer writer = {.bytes = bytes, .capacity = sizeof bytes};
    wire_put_number(&writer, NEWS_GONE, 1);
    for (uint32_t i = 0; i < count; i++)
      wire_put_number(&writer, ids[i], 8);
    if (agent_send(services->agent, peer, AGENT_UPDATE, bytes, (uint32_t)writer.at) != 0)
      return;
    peer->gone_sent += count;
  }
}

// Where the ids end that are there.
static uint64_t end_of_gone(struct agent_services *services) {
  pthread_mutex_lock(&services->agent->lock);
  uint64_t end = services->gone_before + services->num_gone;
  pthread_mutex_unlock(&services->agent->lock);
  return end;
}

// Forgets the ids before number `to`, and more if there are very many; notes whether there are others.
static void drop_gone(struct agent_services *services, uint64_t to) {
  pthread_mutex_lock(&services->agent->lock);
  uint32_t count = (uint32_t)(to - services->gone_before);
  if (services->num_gone - count > AGENT_MAX_REGIONS) {
    count = services->num_gone - AGENT_MAX_REGIONS;
    log_warn("agent %s: a peer accepts no messages, and is not told about %" PRIu64 " regions that are gone",
             services->agent->name, services->gone_before + count - to);
  }
  services->num_gone -= count;
  services->gone_before += count;
  services->gone_due = services->num_gone > 0;
  if (services->gone_due) {
    memmove(services->gone, services->gone + count, services->num_gone * sizeof *services->gone);
  } else {
    free(services->gone);
    services->gone = NULL;
    services->room_gone = 0;
  }
  pthread_mutex_unlock(&services->agent->lock);
}

// The living peer in that slot, if messages reach it; NULL: none. `*more`: there is such a slot.
static struct agent_peer *peer_at(weft_agent_t *agent, uint32_t slot, bool *more) {
  pthread_mutex_lock(&agent->lock);
  *more = slot < agent->peers.count;
  struct agent_peer *peer = *more ? agent->peers.slots[slot] : NULL;
  bool reached = peer && peer->state == AGENT_PEER_ALIVE && peer->messenger;
  pthread_mutex_unlock(&agent->lock);
  return reached ? peer : NULL; // housekeeping alone takes it apart
}

void liveness_send_regions_gone(struct agent_services *services) {
  uint64_t sent = end_of_gone(services); // to all
  bool more = sent > services->gone_before;
  for (uint32_t slot = 0; more; slot++) {
    struct agent_peer *peer = peer_at(services->agent, slot, &more);
    if (!peer)
      continue;
    send_gone(services, peer);
    sent = peer->gone_sent < sent ? peer->gone_sent : sent;
  }
  drop_gone(services, sent);
}

void liveness_send_goodbyes(struct agent_services *services) {
  bool more = true;
  for (uint32_t slot = 0; more; slot++) {
    struct agent_peer *peer = peer_at(services->agent, slot, &more);
    if (peer)
      agent_send(services->agent, peer, AGENT_GOODBYE, NULL, 0);
  }
}

void liveness_forget_peer(weft_agent_t *agent, weft_peer_t id) {
  static const uint8_t forgotten = NEWS_FORGOTTEN;
  pthread_mutex_lock(&agent->housekeeping);
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = agent_peer_get(agent, id);
  bool reached = peer && peer->state == AGENT_PEER_ALIVE && peer->messenger;
  pthread_mutex_unlock(&agent->lock);
  if (reached)
    agent_send(agent, peer, AGENT_UPDATE, &forgotten, sizeof forgotten);
  pthread_mutex_unlock(&agent->housekeeping);
}

static void take_gone(weft_agent_t *agent, weft_peer_t peer, struct wire_reader *reader) {
  uint64_t ids[IDS_AT_ONCE];
  uint32_t count = 0;
  while (count < IDS_AT_ONCE && wire_left(reader) >= 8)
    ids[count++] = wire_take_number(reader, 8);
  agent_remote_regions_drop(agent, peer, ids, count);
}

void liveness_control_message(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                              uint32_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  if (kind == AGENT_GOODBYE) {
    agent_peer_end(agent, peer, WEFT_AGENT_EVENT_PEER_LEFT, "it closed");
    return;
  }
  uint64_t news = wire_take_number(&reader, 1);
  struct agent_life *life = news == NEWS_FORGOTTEN ? liveness_of(agent, peer) : NULL;
  if (news == NEWS_GONE)
    take_gone(agent, peer, &reader);
  else if (life)
    life->loaded_ns = clock_ns(); // as if nothing had come from it
}
