// Housekeeping: the periodic work of an agent beside its transports, in a fixed order.
#include "agent/housekeeping.h"

#include "agent/agent.h"
#include "agent/peer/message_recv.h"
#include "agent/peer/table.h"
#include "agent/transfer/transfer.h"
#include "base/time/clock.h"

enum {
  LOOK_NS = 10000000, // deadlines of transfers in flight
  DYING_NS = 1000000, // ended peers that wait for something in flight
};

uint64_t agent_housekeep(weft_agent_t *agent, uint64_t now_ns) {
  agent_inbox_housekeep(agent);
  agent_peers_housekeep(agent);
  uint64_t next = agent_services_tick(agent, now_ns), deadline = agent_transfers_housekeep(agent, now_ns);
  if (deadline < next)
    next = deadline;
  uint64_t most = CLOCK_NEVER;
  if (atomic_load(&agent->in_flight) > 0)
    most = now_ns + LOOK_NS;
  if (agent_peers_dying(agent))
    most = now_ns + DYING_NS;
  return next < most ? next : most;
}
