// Peers of the transport fault, each with a peer of the inner transport.
#include <stdlib.h>

#include "transport/fault/fault.h"

void fault_peer_free(struct fault_peer *peer) {
  while (peer->remotes.next != &peer->remotes) {
    struct fault_remote *remote = LINK_OF(peer->remotes.next, struct fault_remote, link);
    link_remove(&remote->link);
    free(remote);
  }
  link_remove(&peer->link);
  free(peer);
}

int fault_connect(struct transport_worker *base, const void *bytes, size_t size, const char *owner,
                  struct transport_peer **made) {
  struct fault_worker *worker = (struct fault_worker *)base;
  struct fault_peer *peer = fault_make(sizeof *peer);
  if (!peer)
    return WEFT_ERR_NOMEM;
  int rc = worker->inner_table->connect(worker->inner, bytes, size, owner, &peer->inner);
  if (rc != 0) {
    free(peer);
    return rc;
  }
  peer->inner->arg = peer;
  peer->base.worker = base;
  link_init(&peer->remotes);
  link_add(&worker->peers, &peer->link);
  *made = &peer->base;
  return 0;
}

void fault_disconnect(struct transport_peer *base) {
  struct fault_peer *peer = (struct fault_peer *)base;
  struct fault_worker *worker = (struct fault_worker *)base->worker;
  peer->closing = true;
  peer->flights++; // keeps it until the count is 0 again
  worker->inner_table->disconnect(peer->inner);
  fault_end_held(worker, peer, WEFT_ERR_CANCELED, "disconnected");
  if (--peer->flights == 0)
    fault_peer_free(peer);
}

void fault_fence(struct transport_peer *base) {
  ((struct fault_worker *)base->worker)->inner_table->fence(((struct fault_peer *)base)->inner);
}
