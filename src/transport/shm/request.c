// Checks and posts requests.
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

static bool within(uint64_t address, uint64_t length, uint64_t whole_address, uint64_t whole_length) {
  return address >= whole_address && length <= whole_length && address - whole_address <= whole_length - length;
}

static int check_piece(const struct transport_request *request, uint32_t index) {
  const struct transport_piece *piece = &request->pieces[index];
  if (!piece->local || !piece->remote || piece->local->worker != request->peer->worker ||
      piece->remote->peer != request->peer)
    return fail(WEFT_ERR_INVALID, "piece %u is not between this worker and that peer", index);
  if (!within(piece->local_address, piece->length, (uintptr_t)piece->local->memory.address,
              piece->local->memory.length))
    return fail(WEFT_ERR_LIMIT, "piece %u is outside its local region", index);
  if (!within(piece->remote_address, piece->length, piece->remote->address, piece->remote->length))
    return fail(WEFT_ERR_LIMIT, "piece %u is outside the peer's region", index);
  bool read_only = request->op == WEFT_TRANSFER_READ ? piece->local->memory.read_only
                                                     : ((const struct shm_remote *)piece->remote)->read_only;
  if (read_only)
    return fail(WEFT_ERR_INVALID, "piece %u goes to memory that was registered as read-only", index);
  return 0;
}

int shm_prepare(struct transport_request *request) {
  if (request->op != WEFT_TRANSFER_READ && request->op != WEFT_TRANSFER_WRITE)
    return fail(WEFT_ERR_INVALID, "there is no operation %d", (int)request->op);
  if (request->message_size > TRANSPORT_MAX_MESSAGE)
    return fail(WEFT_ERR_LIMIT, "a message has %u bytes at most, not %u", (unsigned)TRANSPORT_MAX_MESSAGE,
                request->message_size);
  uint64_t total = 0;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    int rc = check_piece(request, i);
    if (rc != 0)
      return rc;
    total += request->pieces[i].length < SHM_STREAM ? request->pieces[i].length
                                                    : SHM_STREAM; // so that the sum cannot overflow
  }
  struct shm_op *op = calloc(1, sizeof *op);
  if (!op)
    return fail(WEFT_ERR_NOMEM, "no memory for a request");
  op->walk.request = request;
  op->large = total > SHM_INLINE;
  op->past_caches = total >= SHM_STREAM;
  request->own = op;
  return 0;
}

void shm_unprepare(struct transport_request *request) {
  free(request->own);
  request->own = NULL;
}

// Fails a request that was not started.
static int refuse(struct transport_request *request, int err, const char *why) {
  for (uint32_t i = 0; request->status && i < request->num_pieces; i++)
    request->status[i] = err;
  request->moved = 0;
  snprintf(request->why, sizeof request->why, "%s", why);
  atomic_store_explicit(&request->state, err, memory_order_release);
  return fail(err, "%s", why);
}

int shm_post(struct transport_request *request) {
  struct shm_peer *peer = (struct shm_peer *)request->peer;
  struct shm_op *op = request->own;
  atomic_fetch_add(&peer->active, 1);
  int rc = atomic_load(&peer->ended);
  if (rc != 0) {
    refuse(request, rc, peer->why);
    atomic_fetch_sub(&peer->active, 1);
    return rc;
  }
  request->why[0] = '\0';
  request->moved = 0;
  op->walk = (struct shm_walk){.request = request, .past_caches = op->past_caches};
  atomic_store_explicit(&op->canceled, false, memory_order_relaxed);
  atomic_store_explicit(&request->state, TRANSPORT_IN_FLIGHT, memory_order_relaxed);
  if (op->large) {
    shm_move_later(op);
  } else {
    shm_move(op, UINT32_MAX);
    shm_pieces_done(op);
  }
  return 0;
}

void shm_cancel(struct transport_request *request) {
  struct shm_peer *peer = (struct shm_peer *)request->peer;
  struct shm_op *op = request->own;
  if (!op || atomic_load(&request->state) != TRANSPORT_IN_FLIGHT)
    return;
  atomic_store(&op->canceled, true);
  atomic_store(&peer->cancels, true);
  shm_queue_send(peer);
}
