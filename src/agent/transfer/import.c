// Imports regions into workers, so that transfers reach a region of a peer, or of this agent by loopback.
#include "agent/transfer/import.h"

#include "agent/memory/region.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "base/fail.h"

// A region of this agent: its loopback imports the same key that it would publish.
static int import_own(struct agent_region *region, struct agent_worker *worker, struct agent_link *link) {
  if (!region->local[worker->index])
    return fail(WEFT_ERR_UNREACHABLE, "%s does not have it", worker->transport->name);
  uint8_t key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  int rc = worker->transport->pack(region->local[worker->index], key, &size);
  if (rc != 0)
    return rc;
  return worker->transport->import(link->to, key, size, &region->remote[worker->index]);
}

// The region's range in the peer's metadata, against which descriptors are checked, and the range in its key, against
// which the transport checks, have to be the same.
static int check_key(struct agent_region *region, struct agent_worker *worker) {
  struct transport_remote *remote = region->remote[worker->index];
  bool within = region->address >= remote->address && region->length <= remote->length &&
                region->address - remote->address <= remote->length - region->length;
  if (remote->kind == region->kind && within)
    return 0;
  worker->transport->release(remote);
  region->remote[worker->index] = NULL;
  char name[120];
  return fail(WEFT_ERR_PROTOCOL, "the key of %s for %s is for other memory",
              agent_region_name(region, name, sizeof name), worker->transport->name);
}

static int import_foreign(struct agent_region *region, struct agent_worker *worker, struct agent_link *link) {
  const struct agent_key *key = &region->keys[worker->index];
  if (!key->bytes)
    return fail(WEFT_ERR_UNREACHABLE, "the peer has not registered it with %s", worker->transport->name);
  int rc = worker->transport->import(link->to, key->bytes, key->size, &region->remote[worker->index]);
  return rc == 0 ? check_key(region, worker) : rc;
}

struct transport_remote *agent_region_remote(struct agent_region *region, struct agent_worker *worker) {
  uint32_t i = worker->index;
  struct agent_link *link = agent_link_get(region->of, worker);
  if (!link || region->remote[i])
    return region->remote[i];
  agent_worker_lock(worker);
  bool own = region->of->id == WEFT_PEER_SELF;
  int rc = own ? import_own(region, worker, link) : import_foreign(region, worker, link);
  agent_worker_unlock(worker);
  if (rc != 0)
    agent_region_keep_why(region, i);
  return region->remote[i];
}
