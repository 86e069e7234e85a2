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
      shm_copy(there, local, size);
    else
      shm_copy(local, there, size);
    walk->request->moved += size;
    walk->offset += size;
    budget -= size;
    if (walk->offset == piece->length)
      shm_walk_done(walk);
  }
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

int shm_move(struct transport_request *request, struct shm_op *op) {
  struct shm_peer *peer = (struct shm_peer *)request->peer;
  struct shm_walk walk = {.request = request, .op = op};
  while (walk.at < request->num_pieces) {
    stretch(&walk, (const struct shm_remote *)request->pieces[walk.at].remote);
    if (walk.at == request->num_pieces)
      break;
    int ended = atomic_load_explicit(&peer->ended, memory_order_relaxed);
    if (ended)
      fail_rest(&walk, ended, peer->why);
    else if (atomic_load_explicit(&op->canceled, memory_order_relaxed))
      fail_rest(&walk, WEFT_ERR_CANCELED, "cancelled");
  }
  return walk.failure;
}
