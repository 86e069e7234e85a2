// A transport for an agent that is open: its worker is made complete before num_workers counts it.
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/progress/progress.h"
#include "base/fail.h"

// The ways to all peers by that worker. There is none before their next metadata.
static int link_peers(weft_agent_t *agent, struct agent_worker *worker) {
  for (uint32_t i = 0; i < agent->peers.count; i++) {
    struct agent_link *link = &agent->peers.slots[i]->links[worker->index];
    *link = (struct agent_link){.peer = agent->peers.slots[i], .worker = worker, .untried = true};
    snprintf(link->why, sizeof link->why,
             "this agent opened it after it had loaded the peer's metadata: load it again");
  }
  struct agent_link *own = &agent->self.links[worker->index];
  *own = (struct agent_link){.peer = &agent->self, .worker = worker};
  return agent_metrics_open(own);
}

// [lock]
static int add(weft_agent_t *agent, const char *name) {
  const struct transport *transport;
  if (agent_worker_is_open(agent, name))
    return fail(WEFT_ERR_EXISTS, "this agent has the transport %s already", name);
  int rc = transport_find(name, &transport);
  if (rc == 0)
    rc = agent_worker_open(agent, transport, false);
  if (rc != 0)
    return agent_worker_missing(rc, name);
  struct agent_worker *worker = &agent->workers[agent->num_workers];
  rc = link_peers(agent, worker);
  if (rc == 0)
    rc = agent_progress_add(agent, worker);
  if (rc != 0) {
    agent_metrics_close(&agent->self.links[worker->index]);
    agent_worker_discard(worker);
    return rc;
  }
  agent_regions_enroll(agent, worker);
  agent->change++; // of the published data: peers learn its address
  agent->num_workers++;
  return 0;
}

int weft_agent_add_transport(weft_agent_t *agent, const char *name) {
  int rc = agent_handle_check(agent);
  if (rc == 0 && (!name || !*name || strchr(name, ',')))
    rc = fail(WEFT_ERR_INVALID, "a transport is named by one name, such as \"ucx\"; it is %s%s%s", name ? "\"" : "",
              name ? name : "NULL", name ? "\"" : "");
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&agent->lock);
  rc = add(agent, name);
  pthread_mutex_unlock(&agent->lock);
  if (rc == 0)
    agent->hooks->regions_changed(agent);
  if (rc == 0)
    agent_wake(agent);
  return rc;
}
