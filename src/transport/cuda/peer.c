// Peers of the transport cuda: it uses the addresses and connections of shm.
#include <stdlib.h>

#include "base/fail.h"
#include "base/wire/card.h"
#include "transport/cuda/cuda.h"

// The address of shm.
static const struct card address_card = {"address of cuda", 0x57435544, 3};

static struct cuda_worker *worker_of(struct transport_worker *worker) {
  return (struct cuda_worker *)worker;
}

void cuda_peer_free(struct cuda_worker *worker, struct cuda_peer *peer) {
  struct cuda_peer **link = &worker->peers;
  while (peer->remotes)
    cuda_transport_release(&peer->remotes->base);
  if (peer->shm)
    worker->shm->transport->disconnect(peer->shm);
  while (*link != peer)
    link = &(*link)->next;
  *link = peer->next;
  free(peer);
}

void cuda_peers_free_leaving(struct cuda_worker *worker) {
  for (struct cuda_peer *peer = worker->peers, *next; peer; peer = next) {
    next = peer->next;
    if (peer->leaving && !cuda_requests_of(worker, peer))
      cuda_peer_free(worker, peer);
  }
}

int cuda_transport_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct cuda_worker *worker = worker_of(base);
  uint8_t inner[TRANSPORT_MAX_ADDRESS];
  size_t inner_size = sizeof inner;
  int rc = worker->shm->transport->address(worker->shm, inner, &inner_size);
  if (rc != 0)
    return rc;
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put(&writer, inner, inner_size);
  return card_end(&address_card, &writer, size);
}

int cuda_transport_connect(struct transport_worker *base, const void *bytes, size_t size, const char *owner,
                           struct transport_peer **out) {
  struct cuda_worker *worker = worker_of(base);
  struct wire_reader reader;
  int rc = card_read(&address_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  struct cuda_peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  peer->base.worker = base;
  rc = worker->shm->transport->connect(worker->shm, reader.bytes + reader.at, wire_left(&reader), owner, &peer->shm);
  if (rc != 0) {
    free(peer);
    return rc;
  }
  peer->shm->arg = peer;
  peer->next = worker->peers;
  worker->peers = peer;
  *out = &peer->base;
  return 0;
}

void cuda_transport_disconnect(struct transport_peer *base) {
  struct cuda_peer *peer = (struct cuda_peer *)base;
  struct cuda_worker *worker = worker_of(base->worker);
  peer->leaving = true;
  cuda_requests_cancel(worker, peer);
  cuda_peers_free_leaving(worker);
}
