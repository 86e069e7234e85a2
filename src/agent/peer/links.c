// The links to a peer: one for each transport that both sides have open.
#include "agent/peer/links.h"

#include <stdio.h>
#include <string.h>

#include "agent/metrics/metrics.h"
#include "agent/progress/submit.h"
#include "agent/progress/worker.h"
#include "base/fail.h"

void agent_links_match(const weft_agent_t *agent, const struct agent_description *description, uint32_t *worker) {
  for (uint32_t t = 0; t < description->num_transports; t++) {
    worker[t] = UINT32_MAX;
    for (uint32_t i = 0; i < agent->num_workers; i++) {
      bool others = !(agent->workers[i].worker->abilities.flags & TRANSPORT_SELF_ONLY);
      if (others && strcmp(agent->workers[i].transport->name, description->transports[t].name) == 0)
        worker[t] = i;
    }
  }
}

static int connect_link(struct agent_link *link, const struct agent_transport *from, const char *owner) {
  struct agent_worker *by = link->worker;
  agent_worker_lock(by);
  int rc = by->transport->connect(by->worker, from->address, from->address_size, owner, &link->to);
  if (rc == 0)
    link->to->arg = link;
  agent_worker_unlock(by);
  link->untried = false;
  snprintf(link->why, sizeof link->why, "%s", rc == 0 ? "" : weft_last_error());
  return rc;
}

uint32_t agent_links_connect(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                             char *why, size_t size) {
  uint32_t worker[AGENT_MAX_TRANSPORTS], reached = 0;
  char owner[AGENT_OWNER];
  agent_owner(owner, description->name, description->incarnation);
  agent_links_match(agent, description, worker);
  for (uint32_t t = 0; t < description->num_transports; t++) {
    const struct agent_transport *from = &description->transports[t];
    struct agent_link *link = worker[t] == UINT32_MAX ? NULL : &peer->links[worker[t]];
    if (!link || !link->untried || !from->address)
      continue;
    int rc = agent_metrics_open(link);
    if (rc == 0)
      rc = connect_link(link, from, owner);
    reached += rc == 0;
    if (rc != 0)
      snprintf(why, size, "%s: %s", link->worker->transport->name, weft_last_error());
  }
  return reached;
}

int agent_links_connect_all(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description) {
  char why[256] = "no transport is common to both";
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    peer->links[i].untried = true;
    snprintf(peer->links[i].why, sizeof peer->links[i].why, "the peer does not have it");
  }
  uint32_t reached = agent_links_connect(agent, peer, description, why, sizeof why);
  return reached > 0 ? 0 : fail(WEFT_ERR_UNREACHABLE, "%s cannot be reached: %s", description->name, why);
}

void agent_links_choose_messenger(weft_agent_t *agent, struct agent_peer *peer) {
  for (uint32_t i = 0; !peer->messenger && i < agent->num_workers; i++)
    if (peer->links[i].to && (agent->workers[i].worker->abilities.flags & TRANSPORT_MESSAGES))
      peer->messenger = &agent->workers[i];
}
