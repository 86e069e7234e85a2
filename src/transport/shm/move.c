#include <stdarg.h>
#include <stdio.h>

#include "transport/shm/shm.h"

void shm_walk_done(struct shm_walk *walk) {
  if (walk->request->status)
    walk->request->status[walk->at] = 0;
  walk->at++;
  walk->offset = 0;
}

void shm_walk_fail(struct shm_walk *walk, int err, const char *format, ...) {
  if (walk->request->status)
    walk->request->status[walk->at] = err;
  if (walk->failure == 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(walk->request->why, sizeof walk->request->why, format, args);
    va_end(args);
    walk->failure = err;
  }
  walk->at++;
  walk->offset = 0;
}

void shm_walk_advance(struct shm_walk *walk, uint64_t bytes) {
  const struct transport_request *request = walk->request;
  walk->request->moved += bytes;
  while (walk->at < request->num_pieces) {
    uint64_t left = request->pieces[walk->at].length - walk->offset;
    if (bytes < left) {
      walk->offset += bytes;
      return;
    }
    if (bytes == 0 && left != 0)
      return;
    bytes -= left;
    shm_walk_done(walk);
    if (bytes == 0)
      return;
  }
}

// The pieces that follow and are of this remote, up to SHM_STRETCH bytes.
static void copy_stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  const struct transport_request *request = walk->request;
  uint64_t budget = SHM_STRETCH;
  while (walk->at < request->num_pieces && request->pieces[walk->at].remote == &remote->base && budget) {
    const struct transport_piece *piece = &request->pieces[walk->at];
    uint64_t left = piece->length - walk->offset, size = left < budget ? left : budget;
    void *local = (void *)(uintptr_t)(piece->local_address + walk->offset);
    void *there = remote->memory + (piece->remote_address - remote->base.address) + walk->offset;
    if (request->op == WEFT_WRITE)
      shm_copy(there, local, size, walk->past_caches);
    else
      shm_copy(local, there, size, walk->past_caches);
    walk->request->moved += size;
    walk->offset += size;
    budget -= size;
    if (walk->offset == piece->length)
      shm_walk_done(walk);
  }
  shm_copy_end(walk->past_caches);
}

static void fail_rest(struct shm_walk *walk, int err, const char *why) {
  while (walk->at < walk->request->num_pieces)
    shm_walk_fail(walk, err, "%s", why);
}

static void fail_remote(struct shm_walk *walk, const struct shm_remote *remote, int err, const char *why) {
  while (walk->at < walk->request->num_pieces && walk->request->pieces[walk->at].remote == &remote->base)
    shm_walk_fail(walk, err, "piece %u: %s", walk->at, why);
}

static void stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  const struct shm_peer *peer = (const struct shm_peer *)walk->request->peer;
  uint32_t place;
  if (!shm_gate_enter(peer, remote, &place)) {
    fail_remote(walk, remote, WEFT_ERR_NOT_FOUND, "its owner has taken the region back");
    return;
  }
  if (remote->memory)
    copy_stretch(walk, remote);
  else
    shm_vm_stretch(walk, remote);
  shm_gate_leave(peer, remote, place);
}

bool shm_move(struct shm_op *op, uint32_t stretches) {
  struct shm_walk *walk = &op->walk;
  struct shm_peer *peer = (struct shm_peer *)walk->request->peer;
  for (uint32_t i = 0; walk->at < walk->request->num_pieces; i++) {
    int ended = atomic_load_explicit(&peer->ended, memory_order_relaxed);
    if (ended)
      fail_rest(walk, ended, peer->why);
    else if (atomic_load_explicit(&op->canceled, memory_order_relaxed))
      fail_rest(walk, WEFT_ERR_CANCELED, "cancelled");
    else if (i == stretches)
      return false;
    else
      stretch(walk, (const struct shm_remote *)walk->request->pieces[walk->at].remote);
  }
  return true;
}

void shm_move_later(struct shm_op *op) {
  struct shm_worker *worker = ((struct shm_peer *)op->walk.request->peer)->worker;
  struct shm_op *newest = atomic_load(&worker->large);
  do
    op->next = newest;
  while (!atomic_compare_exchange_weak(&worker->large, &newest, op));
  shm_ring_wake(worker);
}

static void append(struct shm_worker *worker, struct shm_op *first, struct shm_op *last) {
  if (worker->last_moving)
    worker->last_moving->next = first;
  else
    worker->moving = first;
  worker->last_moving = last;
}

static void take_large(struct shm_worker *worker) {
  struct shm_op *newest = atomic_exchange(&worker->large, NULL), *oldest = NULL, *last = newest;
  while (newest) {
    struct shm_op *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  if (oldest)
    append(worker, oldest, last);
}

uint32_t shm_move_on(struct shm_worker *worker) {
  if (atomic_load_explicit(&worker->large, memory_order_relaxed))
    take_large(worker);
  struct shm_op *op = worker->moving;
  if (!op)
    return 0;
  worker->moving = op->next;
  if (!worker->moving)
    worker->last_moving = NULL;
  op->next = NULL;
  if (shm_move(op, SHM_TURN))
    shm_pieces_done(op);
  else
    append(worker, op, op); // the others' turn
  return 1;
}
