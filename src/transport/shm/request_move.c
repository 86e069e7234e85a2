// Moves the pieces of requests, by copying or process_vm, in stretches: in post(), or later in progress().
#include <string.h>

#include "transport/shm/shm.h"

static bool is_of(const struct transport_request *request, uint32_t at, const struct shm_remote *remote) {
  return at < request->num_pieces && request->pieces[at].remote == &remote->base;
}

static struct shm_run run_of(const struct transport_request *request, const struct shm_remote *remote, uint32_t at,
                             uint64_t offset, uint64_t size) {
  const struct transport_piece *piece = &request->pieces[at];
  unsigned char *local = (unsigned char *)(uintptr_t)(piece->local_address + offset);
  unsigned char *there = remote->memory + (piece->remote_address - remote->base.address) + offset;
  bool is_write = request->op == WEFT_TRANSFER_WRITE;
  return (struct shm_run){.to = is_write ? there : local, .from = is_write ? local : there, .size = size};
}

// Copies the pieces that follow and are of this remote, up to SHM_STRETCH bytes.
static void copy_stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  const struct transport_request *request = walk->request;
  uint64_t budget = SHM_STRETCH;
  while (is_of(request, walk->at, remote) && budget) {
    uint64_t length = request->pieces[walk->at].length, left = length - walk->offset;
    struct shm_run run = run_of(request, remote, walk->at, walk->offset, left < budget ? left : budget);
    memcpy(run.to, run.from, run.size);
    walk->request->moved += run.size;
    walk->offset += run.size;
    budget -= run.size;
    if (walk->offset == length)
      shm_walk_done(walk);
  }
}

// Returns the next run from (*at, *offset) on, and advances both past it.
static struct shm_run take_run(const struct shm_walk *walk, const struct shm_remote *remote, uint32_t *at,
                               uint64_t *offset) {
  const struct transport_request *request = walk->request;
  while (is_of(request, *at, remote)) {
    uint64_t left = request->pieces[*at].length - *offset;
    uint64_t size = left < SHM_RUN ? left : SHM_RUN;
    struct shm_run run = run_of(request, remote, *at, *offset, size);
    *offset += size;
    if (size == left) {
      ++*at;
      *offset = 0;
    }
    if (size > 0)
      return run;
  }
  return (struct shm_run){0};
}

// The same past the caches. The hardware prefetcher follows sequential reads, but starts anew with each piece at
// another place. With pieces of 16 KiB that costs half of the time, unless software prefetches the next piece.
static void stream_stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  uint32_t at = walk->at;
  uint64_t offset = walk->offset, budget = SHM_STRETCH;
  struct shm_run now = take_run(walk, remote, &at, &offset), next = take_run(walk, remote, &at, &offset);
  while (now.size > 0 && now.size <= budget) {
    struct shm_run later = take_run(walk, remote, &at, &offset);
    shm_stream(&now, &next, &later);
    shm_walk_advance(walk, now.size);
    budget -= now.size;
    now = next;
    next = later;
  }
  while (now.size == 0 && is_of(walk->request, walk->at, remote)) // the rest has no bytes
    shm_walk_done(walk);
  shm_stream_end();
}

static void fail_rest(struct shm_walk *walk, int err, const char *why) {
  while (walk->at < walk->request->num_pieces)
    shm_walk_fail(walk, err, "%s", why);
}

static void stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  const struct shm_peer *peer = (const struct shm_peer *)walk->request->peer;
  uint32_t place;
  if (!shm_gate_enter(peer, remote, &place)) {
    if (shm_gate_fenced(peer))
      shm_walk_fail_remote(walk, remote, WEFT_ERR_PEER_LOST, "the peer has fenced this worker");
    else if (atomic_load(&peer->page->closed))
      shm_walk_fail_remote(walk, remote, WEFT_ERR_PEER_LOST, "the peer has closed its transport");
    else
      shm_walk_fail_remote(walk, remote, WEFT_ERR_NOT_FOUND, "its owner has deregistered the region");
    return;
  }
  if (!remote->memory)
    shm_vm_stretch(walk, remote);
  else if (walk->past_caches)
    stream_stretch(walk, remote);
  else
    copy_stretch(walk, remote);
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
  if (shm_move(op, SHM_MOVES))
    shm_pieces_done(op);
  else
    append(worker, op, op); // behind the other requests
  return 1;
}
