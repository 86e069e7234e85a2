// The last part of requests to one peer: their messages, in the order of their posts, and their ends.
#include "transport/shm/shm.h"

enum { FREE, TAKEN, LOOK_AGAIN };

static void take_inbox(struct shm_peer *peer) {
  struct shm_op *newest = atomic_exchange(&peer->inbox, NULL), *oldest = NULL, *last = newest;
  while (newest) {
    struct shm_op *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  if (!oldest)
    return;
  if (peer->last)
    peer->last->next = oldest;
  else
    peer->first = oldest;
  peer->last = last;
}

static struct shm_op *pop(struct shm_peer *peer) {
  struct shm_op *op = peer->first;
  peer->first = op->next;
  if (!peer->first)
    peer->last = NULL;
  return op;
}

static void end_canceled(struct shm_peer *peer) {
  if (!atomic_exchange(&peer->cancels, false))
    return;
  struct shm_op *all = peer->first;
  peer->first = peer->last = NULL;
  while (all) {
    struct shm_op *op = all;
    all = op->next;
    op->next = NULL;
    if (atomic_load(&op->canceled)) {
      shm_finish(op->walk.request, WEFT_ERR_CANCELED, "cancelled");
      continue;
    }
    if (peer->last)
      peer->last->next = op;
    else
      peer->first = op;
    peer->last = op;
  }
}

static void set_waiting(struct shm_peer *peer, bool waits) {
  if (atomic_exchange(&peer->waits, waits) == waits)
    return;
  if (waits)
    atomic_fetch_add(&peer->worker->waiting, 1);
  else
    atomic_fetch_sub(&peer->worker->waiting, 1);
}

static void work(struct shm_peer *peer) {
  take_inbox(peer);
  end_canceled(peer);
  uint32_t sent = 0;
  int ended = atomic_load(&peer->ended);
  while (ended && peer->first)
    shm_finish(pop(peer)->walk.request, ended, peer->why);
  while (peer->first && !ended) {
    const struct transport_request *request = peer->first->walk.request;
    if (shm_ring_put(peer, request->message, request->message_size) != 0)
      break;
    sent++;
    shm_finish(pop(peer)->walk.request, 0, NULL);
  }
  if (sent)
    shm_ring_notify(peer);
  set_waiting(peer, peer->first != NULL);
}

static void push(struct shm_peer *peer, struct shm_op *op) {
  struct shm_op *newest = atomic_load(&peer->inbox);
  do
    op->next = newest;
  while (!atomic_compare_exchange_weak(&peer->inbox, &newest, op));
}

// False: another thread is sending, and will check the inbox again.
static bool begin_sending(struct shm_peer *peer) {
  for (;;) {
    uint32_t seen = FREE;
    if (atomic_compare_exchange_strong(&peer->sending, &seen, TAKEN))
      return true;
    if (seen == LOOK_AGAIN || atomic_compare_exchange_strong(&peer->sending, &seen, LOOK_AGAIN))
      return false;
  }
}

void shm_queue_send(struct shm_peer *peer) {
  if (!begin_sending(peer))
    return;
  for (;;) {
    work(peer);
    uint32_t seen = TAKEN;
    if (atomic_compare_exchange_strong(&peer->sending, &seen, FREE))
      return;
    atomic_store(&peer->sending, TAKEN);
  }
}

void shm_queue_message(struct shm_peer *peer, struct shm_op *op) {
  push(peer, op);
  shm_queue_send(peer);
}
