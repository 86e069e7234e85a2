// Agents that publish to and fetch from the store under test, each call checked.
#include "agent/exchange/support/store_agent.h"

#include "cmocka_all.h"
#include "support/wait.h"

uint32_t store_agent_lease_ttl_s = STORE_AGENT_TTL_S;
const char store_agent_prefix[] = "/weft/test/";

void store_agent_open(struct crowd_member *member, const char *name, weft_store_t *store) {
  struct weft_agent_options options = crowd_options(name);
  options.store = store;
  options.prefix = store_agent_prefix;
  options.lease_ttl_s = store_agent_lease_ttl_s;
  crowd_open(member, &options);
}

void store_agent_publish(struct crowd_member *member) {
  int err = weft_agent_publish(member->agent, NULL, NULL, SUPPORT_DEADLINE_MS);
  if (err)
    fail_msg("publish: %s: %s", weft_err_name(err), weft_last_error());
}

weft_peer_t store_agent_fetch(struct crowd_member *member, const char *name) {
  weft_peer_t peer = 0;
  int err = weft_agent_fetch(member->agent, name, NULL, SUPPORT_DEADLINE_MS, &peer);
  if (err)
    fail_msg("fetch: %s: %s", weft_err_name(err), weft_last_error());
  return peer;
}

weft_region_t store_agent_allocate(struct crowd_member *member) {
  weft_region_t region;
  void *address;
  assert_int_equal(weft_agent_allocate(member->agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  return region;
}

uint32_t store_agent_count_regions(struct crowd_member *member, weft_peer_t peer) {
  struct weft_region_info info[8];
  uint32_t count = 8;
  assert_int_equal(weft_agent_regions(member->agent, peer, info, sizeof *info, count, &count), 0);
  return count;
}
