// The counters as a struct.
#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/peer/table.h"
#include "agent/services.h"
#include "base/sized.h"

static void add_op(const struct metrics_op *from, uint64_t to[5]) {
  to[0] += from->times.ended;
  to[1] += from->bytes;
  to[2] += from->errors;
  to[3] += from->cancels;
  to[4] += from->times.nanoseconds;
}

// The counters of each direction, in the order of the struct's fields.
struct sums {
  uint64_t ops[METRICS_OPS][5], sent, taken;
};

static void add_meter(const struct agent_meter *meter, struct sums *sums) {
  for (unsigned op = 0; meter && op < METRICS_OPS; op++)
    add_op(&meter->ops[op], sums->ops[op]);
}

static void add_peer(const weft_agent_t *agent, const struct agent_peer *peer, struct sums *sums) {
  for (uint32_t i = 0; i < agent->num_workers; i++)
    add_meter(peer->links[i].meter, sums);
  sums->sent += peer->sent - peer->numbered_from;
  sums->taken += peer->num_taken;
}

static void add_all(const weft_agent_t *agent, struct sums *sums) {
  add_peer(agent, &agent->self, sums);
  for (uint32_t i = 0; i < agent->peers.count; i++)
    add_peer(agent, agent->peers.slots[i], sums);
  for (uint32_t i = 0; i < agent->num_workers; i++)
    add_meter(&agent->services->past[i], sums);
}

int weft_agent_get_stats(weft_agent_t *agent, weft_peer_t id, struct weft_agent_stats *out) {
  int rc = agent_handle_check(agent);
  if (rc == 0)
    rc = sized_check_output(out, SIZED_END(struct weft_agent_stats, messages_dropped), "weft_agent_stats");
  if (rc != 0)
    return rc;
  struct sums sums = {0};
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = NULL;
  rc = id == 0 ? 0 : agent_peer_living(agent, id, &peer);
  if (rc == 0 && peer)
    add_peer(agent, peer, &sums);
  else if (rc == 0)
    add_all(agent, &sums);
  pthread_mutex_unlock(&agent->lock);
  if (rc != 0)
    return rc;
  const uint64_t *reads = sums.ops[WEFT_TRANSFER_READ], *writes = sums.ops[WEFT_TRANSFER_WRITE];
  struct weft_agent_stats stats = {.size = sizeof stats,
                                   .reads = reads[0],
                                   .read_bytes = reads[1],
                                   .read_errors = reads[2],
                                   .read_cancels = reads[3],
                                   .read_ns = reads[4],
                                   .writes = writes[0],
                                   .write_bytes = writes[1],
                                   .write_errors = writes[2],
                                   .write_cancels = writes[3],
                                   .write_ns = writes[4],
                                   .notifications_sent = sums.sent,
                                   .notifications_taken = sums.taken,
                                   .messages_dropped = id == 0 ? agent->dropped : 0};
  sized_write(out, &stats, sizeof stats);
  return 0;
}
