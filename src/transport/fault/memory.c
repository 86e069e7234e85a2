// Regions and remote regions of the transport fault, each with one of the inner transport.
#include <stdlib.h>

#include "transport/fault/fault.h"

int fault_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **made) {
  struct fault_worker *worker = (struct fault_worker *)base;
  if (worker->script->reg && memory->length >= worker->script->reg)
    return fail(WEFT_ERR_LIMIT, "%llu bytes are not registered (a fault on purpose)",
                (unsigned long long)memory->length);
  struct fault_region *region = fault_make(sizeof *region);
  if (!region)
    return WEFT_ERR_NOMEM;
  int rc = worker->inner_table->reg(worker->inner, memory, &region->inner);
  if (rc != 0) {
    free(region);
    return rc;
  }
  region->base.worker = base;
  region->base.memory = *memory;
  link_add(&worker->regions, &region->link);
  *made = &region->base;
  return 0;
}

void fault_unreg(struct transport_region *base) {
  struct fault_region *region = (struct fault_region *)base;
  ((struct fault_worker *)base->worker)->inner_table->unreg(region->inner);
  link_remove(&region->link);
  free(region);
}

int fault_pack(struct transport_region *base, void *bytes, size_t *size) {
  return ((struct fault_worker *)base->worker)->inner_table->pack(((struct fault_region *)base)->inner, bytes, size);
}

int fault_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  struct fault_peer *peer = (struct fault_peer *)base;
  struct fault_remote *remote = fault_make(sizeof *remote);
  if (!remote)
    return WEFT_ERR_NOMEM;
  int rc = ((struct fault_worker *)base->worker)->inner_table->import(peer->inner, bytes, size, &remote->inner);
  if (rc != 0) {
    free(remote);
    return rc;
  }
  remote->base = *remote->inner;
  remote->base.peer = base;
  link_add(&peer->remotes, &remote->link);
  *made = &remote->base;
  return 0;
}

void fault_release(struct transport_remote *base) {
  struct fault_remote *remote = (struct fault_remote *)base;
  ((struct fault_worker *)base->peer->worker)->inner_table->release(remote->inner);
  link_remove(&remote->link);
  free(remote);
}

void *fault_map(struct transport_remote *base) {
  const struct transport *inner = ((struct fault_worker *)base->peer->worker)->inner_table;
  return inner->map ? inner->map(((struct fault_remote *)base)->inner) : NULL;
}
