// Makes the connection to a peer before anything is posted: the first message over a network makes the connection, and
// may take long.
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/peer/message_send.h"
#include "agent/peer/table.h"
#include "agent/progress/progress.h"
#include "base/fail.h"
#include "base/time/clock.h"

enum { LOOK_MS = 1 };

// 0: the peer's messages were sent. 1: one is being sent. [takes lock]
static int look(weft_agent_t *agent, weft_peer_t id, char *name, size_t size) {
  struct agent_peer *peer;
  pthread_mutex_lock(&agent->lock);
  int rc = agent_peer_living(agent, id, &peer);
  if (rc == 0) {
    const struct agent_link *link = &peer->links[peer->messenger->index];
    int failed = atomic_load(&link->failed);
    snprintf(name, size, "%s", peer->name);
    rc = failed != 0 ? fail(failed, "%s: %s", peer->name, link->why) : !agent_outgoing_idle(peer);
  }
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

// Sends a heartbeat, a message without content. [takes lock]
static int send_heartbeat(weft_agent_t *agent, weft_peer_t id) {
  struct agent_peer *peer;
  pthread_mutex_lock(&agent->lock);
  int rc = agent_peer_living(agent, id, &peer);
  if (rc == 0)
    rc = agent_send(agent, peer, AGENT_HEARTBEAT, NULL, 0);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

int weft_agent_connect(weft_agent_t *agent, weft_peer_t id, uint32_t timeout_ms) {
  uint64_t until = clock_wait_deadline(timeout_ms);
  char name[WEFT_AGENT_MAX_NAME] = "";
  int rc = agent_handle_check(agent);
  if (rc == 0)
    rc = send_heartbeat(agent, id);
  while (rc == 0 && (rc = look(agent, id, name, sizeof name)) == 1) {
    if (clock_passed(until))
      return fail(WEFT_ERR_TIMEOUT, "no message has reached %s within %u ms", name, timeout_ms);
    rc = 0;
    agent_drive(agent);
    agent_housekeep_if_due(agent, clock_ns());
    if (agent->has_thread)
      poll(NULL, 0, LOOK_MS); // its thread moves it on
    else
      agent_sleep(agent, clock_deadline_ms(LOOK_MS));
  }
  return rc;
}
