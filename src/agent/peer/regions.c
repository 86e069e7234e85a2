// What is known of the regions of a peer, or of this agent.
#include "agent/agent.h"
#include "agent/peer/table.h"
#include "base/fail.h"

static void describe_region(const struct agent_region *region, struct weft_region_info *info) {
  *info = (struct weft_region_info){.size = sizeof *info,
                                    .region = region->id,
                                    .kind = region->kind,
                                    .address = region->address,
                                    .length = region->length == UINT64_MAX ? 0 : region->length,
                                    .device = region->device};
}

int weft_agent_regions(weft_agent_t *agent, weft_peer_t id, struct weft_region_info *info, uint32_t *count) {
  if (!agent || !count || (*count > 0 && (!info || info->size != sizeof *info)))
    return fail(WEFT_ERR_INVALID, "the agent or count is NULL, or info[0].size is not set");
  uint32_t room = *count;
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = agent_peer_get(agent, id);
  int rc = peer ? 0 : agent_peer_fail(agent, id);
  if (rc == 0 && peer->state != AGENT_PEER_ALIVE)
    rc = agent_peer_fail(agent, id);
  uint32_t number = 0;
  for (uint32_t i = 0; rc == 0 && i < peer->regions.count; i++) {
    if (peer->regions.by_id[i]->gone)
      continue;
    if (number < room)
      describe_region(peer->regions.by_id[i], &info[number]);
    number++;
  }
  pthread_mutex_unlock(&agent->lock);
  if (rc != 0)
    return rc;
  *count = number;
  return number > room && room > 0 ? fail(WEFT_ERR_LIMIT, "there are %u regions, and room for %u", number, room) : 0;
}
