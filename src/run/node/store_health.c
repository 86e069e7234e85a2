// Whether the store answers: since when it has not answered, how long the node waits for it, and the messages for a
// person: one when it stops answering, and one when it answers again. Ranks print nothing, since their node waits in
// the same way.
#include <time.h>

#include "base/time/clock.h"
#include "run/node/node.h"

enum { RETRY_MS = 100 }; // between two attempts of a request that the store did not answer

void node_retry(struct node *node) {
  uint64_t retry_ns = clock_deadline_ms(RETRY_MS);
  node->retry_ns = retry_ns < node->retry_ns ? retry_ns : node->retry_ns;
}

// The store answers again. Leases that expired meanwhile have the time of one lease to come back.
void node_store_answered(struct node *node) {
  if (!node->store.silent_ns)
    return;
  node->store.lease_grace_ns = clock_deadline_ms(RUN_LEASE_TTL_S * 1000);
  progress_say(&node->progress, "the store %s answers again, after %.1f s", node->store.endpoints,
               (double)(clock_ns() - node->store.silent_ns) / 1e9);
  node->store.silent_ns = 0;
}

// A store inside the lead ends with it; another one may be started again.
uint32_t node_store_timeout_s(const struct node *node) {
  return node->store.of_lead ? RUN_LEASE_TTL_S : node->config.startup_timeout_s;
}

void node_store_silent(struct node *node, uint32_t wait_limit_s) {
  char until[32];
  time_t end = time(NULL) + (time_t)wait_limit_s;
  struct tm local;
  if (node->store.silent_ns)
    return;
  node->store.silent_ns = clock_ns();
  strftime(until, sizeof until, "%H:%M:%S", localtime_r(&end, &local));
  progress_say(&node->progress, "the store %s does not answer; waiting for it until %s (%u s)", node->store.endpoints,
               until, wait_limit_s);
}
