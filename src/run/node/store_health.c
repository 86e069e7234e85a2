// Whether the store answers: since when it has been silent, and how long the node waits for it.
#include "base/time/clock.h"
#include "run/node/node.h"

enum { RETRY_MS = 100 }; // between two tries of what the store did not answer

void node_retry(struct node *node) {
  uint64_t retry_ns = clock_deadline_ms(RETRY_MS);
  node->retry_ns = retry_ns < node->retry_ns ? retry_ns : node->retry_ns;
}

// The store answers again. What ran out meanwhile has the time of a lease to come back.
void node_store_answered(struct node *node) {
  if (node->store.silent_ns)
    node->store.wary_ns = clock_deadline_ms(RUN_LEASE_TTL_S * 1000);
  node->store.silent_ns = 0;
}

// A store inside the lead ends with it; another one may be started again.
uint32_t node_patience_s(const struct node *node) {
  return node->config.lead && !node->config.store ? RUN_LEASE_TTL_S : node->config.startup_timeout_s;
}

void node_store_silent(struct node *node) {
  if (node->store.silent_ns == 0)
    node->store.silent_ns = clock_ns();
}
