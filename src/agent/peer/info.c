// Information about peers, for the application.
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "base/fail.h"
#include "base/sized.h"

// Its regions that have not gone.
static uint32_t count_regions(const struct agent_peer *peer) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < peer->regions.count; i++)
    count += !peer->regions.by_id[i]->gone;
  return count;
}

// The names of the transports that reach it, in the order of preference.
static void name_transports(weft_agent_t *agent, struct agent_peer *peer, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    const char *name = agent->workers[i].transport->name;
    if (peer->state != AGENT_PEER_ALIVE || !agent_link_get(peer, &agent->workers[i]))
      continue;
    if (used + strlen(name) + 2 > size)
      return;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", name);
  }
}

// What their network libraries have chosen for it.
static void name_uses(weft_agent_t *agent, struct agent_peer *peer, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    struct agent_link *link = peer->state == AGENT_PEER_ALIVE ? agent_link_get(peer, worker) : NULL;
    char one[WEFT_AGENT_MAX_DETAIL] = "";
    if (!link || !worker->transport->uses)
      continue;
    agent_worker_lock(worker);
    worker->transport->uses(worker->worker, link->to, one, sizeof one);
    agent_worker_unlock(worker);
    if (one[0] && used + strlen(worker->transport->name) + strlen(one) + 4 <= size)
      used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? "; " : "", worker->transport->name, one);
  }
}

static void describe(weft_agent_t *agent, struct agent_peer *peer, struct weft_peer_info *info) {
  static const enum weft_peer_state states[] = {
      [AGENT_PEER_ALIVE] = WEFT_PEER_ALIVE, [AGENT_PEER_LEFT] = WEFT_PEER_LEFT, [AGENT_PEER_LOST] = WEFT_PEER_LOST};
  *info = (struct weft_peer_info){.size = sizeof *info,
                                  .peer = peer->id,
                                  .incarnation = peer->incarnation,
                                  .received_ns = atomic_load(&peer->received_ns),
                                  .state = states[peer->state],
                                  .num_regions = peer->state == AGENT_PEER_ALIVE ? count_regions(peer) : 0};
  snprintf(info->name, sizeof info->name, "%s", peer->name);
  snprintf(info->reason, sizeof info->reason, "%s", peer->why);
  name_transports(agent, peer, info->transports, sizeof info->transports);
  name_uses(agent, peer, info->uses, sizeof info->uses);
}

int weft_agent_peer(weft_agent_t *agent, weft_peer_t id, struct weft_peer_info *out) {
  int rc = agent_handle_check(agent);
  if (rc == 0)
    rc = sized_check_output(out, SIZED_END(struct weft_peer_info, transports), "weft_peer_info");
  if (rc != 0)
    return rc;
  struct weft_peer_info info;
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = agent_peer_get(agent, id);
  if (peer)
    describe(agent, peer, &info);
  else
    rc = agent_peer_fail(agent, id);
  pthread_mutex_unlock(&agent->lock);
  if (rc == 0)
    sized_write(out, &info, sizeof info);
  return rc;
}

int weft_agent_peers(weft_agent_t *agent, weft_peer_t *peers, uint32_t cap, uint32_t *count) {
  int rc = agent_handle_check(agent);
  if (rc == 0 && (!count || (cap > 0 && !peers)))
    rc = fail(WEFT_ERR_INVALID, "%s is NULL", count ? "peers" : "count");
  if (rc != 0)
    return rc;
  uint32_t number = 0;
  pthread_mutex_lock(&agent->lock);
  for (uint32_t i = 0; i < agent->peers.count; i++) {
    const struct agent_peer *peer = agent->peers.slots[i];
    if (!peer->name[0] || peer->state != AGENT_PEER_ALIVE)
      continue;
    if (number < cap)
      peers[number] = peer->id;
    number++;
  }
  pthread_mutex_unlock(&agent->lock);
  *count = number;
  return 0;
}
