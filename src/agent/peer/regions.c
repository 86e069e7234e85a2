// Information about the regions of a peer, or of this agent.
#include "agent/agent.h"
#include "agent/peer/table.h"
#include "base/fail.h"
#include "base/sized.h"

enum { FIRST_SIZE = SIZED_END(struct weft_region_info, reserved) };

static void describe_region(const struct agent_region *region, struct weft_region_info *info) {
  uint32_t flags =
      (region->read_only ? WEFT_MEMORY_READ_ONLY : 0u) | (region->no_metadata ? WEFT_MEMORY_NO_METADATA : 0u);
  *info = (struct weft_region_info){.region = region->id,
                                    .address = region->address,
                                    .length = region->length == UINT64_MAX ? 0 : region->length,
                                    .kind = region->kind,
                                    .device = region->device,
                                    .flags = flags};
}

int weft_agent_regions(weft_agent_t *agent, weft_peer_t id, struct weft_region_info *info, size_t each, uint32_t cap,
                       uint32_t *count) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!count || (cap > 0 && !info))
    return fail(WEFT_ERR_INVALID, "the %s is NULL", !count ? "count" : "info");
  if (each < FIRST_SIZE && cap > 0)
    return fail(WEFT_ERR_INVALID, "each is %zu: want sizeof(struct weft_region_info), which was never below %zu", each,
                (size_t)FIRST_SIZE);
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = agent_peer_get(agent, id);
  int rc = peer ? 0 : agent_peer_fail(agent, id);
  if (rc == 0 && peer->state != AGENT_PEER_ALIVE)
    rc = agent_peer_fail(agent, id);
  uint32_t number = 0;
  for (uint32_t i = 0; rc == 0 && i < peer->regions.count; i++) {
    if (peer->regions.by_id[i]->gone)
      continue;
    struct weft_region_info one;
    describe_region(peer->regions.by_id[i], &one);
    if (number < cap)
      sized_put(info, each, number, &one, sizeof one);
    number++;
  }
  pthread_mutex_unlock(&agent->lock);
  if (rc == 0)
    *count = number;
  return rc;
}
