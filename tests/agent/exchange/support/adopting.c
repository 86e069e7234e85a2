#include "agent/exchange/support/adopting.h"

#include <stdatomic.h>

#include "agent/peer/load.h"
#include "cmocka_all.h"

static _Atomic(weft_agent_t *) waiting; // NULL: none
static weft_peer_t first;

void adopting_invalidates(weft_agent_t *agent, weft_peer_t peer) {
  first = peer;
  atomic_store(&waiting, agent);
}

int __real_agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only,
                       weft_peer_t *peer);
int __wrap_agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only,
                       weft_peer_t *peer);

int __wrap_agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only,
                       weft_peer_t *peer) {
  weft_agent_t *expected = agent;
  bool invalidates = atomic_compare_exchange_strong(&waiting, &expected, NULL);
  if (invalidates && first)
    assert_int_equal(weft_agent_invalidate(agent, first), 0);
  int rc = __real_agent_adopt(agent, description, only, peer);
  if (invalidates && !first && rc == 0)
    assert_int_equal(weft_agent_invalidate(agent, *peer), 0);
  return rc;
}
