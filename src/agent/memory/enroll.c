// Gives regions of this agent to its workers: a new region to all of them, and all regions to a new worker.
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/memory/region.h"
#include "agent/progress/submit.h"
#include "base/fail.h"
#include "base/log.h"

static struct transport_memory memory_of(const struct agent_region *region) {
  return (struct transport_memory){.kind = region->kind,
                                   .address = (void *)(uintptr_t)region->address,
                                   .length = region->length == UINT64_MAX ? 0 : region->length,
                                   .device = region->device,
                                   .fd = region->fd,
                                   .path = region->path,
                                   .read_only = region->read_only};
}

static bool knows(const struct agent_worker *worker, enum weft_memory_kind kind) {
  const struct transport_abilities *can = &worker->worker->abilities;
  return (can->local_kinds | can->remote_kinds) & 1u << kind;
}

// 0: it has the region. 1: it is not meant to. Negative: it refuses; why is kept.
static int enroll_one(struct agent_worker *worker, struct agent_region *region) {
  uint32_t i = worker->index;
  if (region->only != 0 && !(region->only & 1u << i)) {
    region->why[i] = strdup("it is not among the region's transports");
    return 1;
  }
  struct transport_memory memory = memory_of(region);
  agent_worker_lock(worker);
  int rc = worker->transport->reg(worker->worker, &memory, &region->local[i]);
  agent_worker_unlock(worker);
  if (rc != 0)
    agent_region_keep_why(region, i);
  return rc;
}

// The worker that would support this kind if the machine had what the worker lacks.
static const struct agent_worker *lacking(const weft_agent_t *agent, enum weft_memory_kind kind) {
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    const struct agent_worker *worker = &agent->workers[i];
    if (!knows(worker, kind) && worker->transport->abilities.local_kinds & 1u << kind && worker->worker->lacks[0])
      return worker;
  }
  return NULL;
}

int agent_kind_unsupported(const weft_agent_t *agent, enum weft_memory_kind kind) {
  const struct agent_worker *lacks = lacking(agent, kind);
  return fail(WEFT_ERR_UNSUPPORTED, "no transport of this agent handles %s%s%s%s%s", agent_kind_name(kind),
              lacks ? "; " : "", lacks ? lacks->transport->name : "", lacks ? ": " : "",
              lacks ? lacks->worker->lacks : "");
}

int agent_region_enroll(weft_agent_t *agent, struct agent_region *region) {
  uint32_t taken = 0;
  int first = 0;
  char why[256] = "";
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    int rc = knows(worker, region->kind) ? enroll_one(worker, region) : 1;
    taken += rc == 0;
    if (rc < 0 && first == 0) {
      first = rc;
      snprintf(why, sizeof why, "%s: %s", worker->transport->name, weft_last_error());
    }
  }
  if (taken > 0 && first != 0)
    log_info("a region is not registered with %s", why);
  if (taken > 0)
    return 0;
  return first != 0 ? fail(first, "%s", why) : agent_kind_unsupported(agent, region->kind);
}

void agent_regions_enroll(weft_agent_t *agent, struct agent_worker *worker) {
  const struct agent_ranges *own = &agent->self.regions;
  for (uint32_t i = 0; i < own->count; i++)
    if (knows(worker, own->by_id[i]->kind) && enroll_one(worker, own->by_id[i]) < 0)
      log_info("a region is not registered with %s: %s", worker->transport->name, weft_last_error());
}
