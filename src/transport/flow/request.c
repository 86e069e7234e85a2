// Requests over a network: which operations are under way, and when a request has ended.
#include "transport/flow/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"

static struct flow_worker *worker_of(const struct flow_peer *peer) {
  return (struct flow_worker *)peer->base.worker;
}

static uint64_t most_of(const struct transport_piece *piece) {
  uint64_t there = ((const struct flow_remote *)piece->remote)->max_operation;
  uint64_t here = ((const struct flow_region *)piece->local)->max_operation;
  return here < there ? here : there;
}

// As many operations as its pieces are cut into, and no more than the window.
static uint32_t window_of(const struct transport_request *request) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < request->num_pieces && count < FLOW_WINDOW; i++)
    count += request->pieces[i].length / most_of(&request->pieces[i]) + 1;
  if (count == 0)
    return 1; // a message
  return count < FLOW_WINDOW ? (uint32_t)count : FLOW_WINDOW;
}

enum { HEAD = (sizeof(struct flow_request) + 63) / 64 * 64 };

struct flow_op *flow_op_of(struct flow_request *own, uint32_t i) {
  return (struct flow_op *)(void *)((char *)own + HEAD + i * own->worker->wire.op_size);
}

static bool inside(uint64_t address, uint64_t length, uint64_t start, uint64_t size) {
  return address >= start && address - start <= size && length <= size - (address - start);
}

static int check_piece(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *local = &piece->local->memory;
  const struct flow_remote *remote = (const struct flow_remote *)piece->remote;
  if (!inside(piece->local_address, piece->length, (uintptr_t)local->address, local->length))
    return fail(WEFT_ERR_INVALID, "piece %u is not inside its own region", i);
  if (!inside(piece->remote_address, piece->length, remote->base.address, remote->base.length))
    return fail(WEFT_ERR_INVALID, "piece %u is not inside the peer's region", i);
  if (request->op == WEFT_TRANSFER_WRITE ? remote->read_only : local->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u writes to a region that is read-only", i);
  return 0;
}

int flow_prepare(struct transport_request *request) {
  struct flow_peer *peer = (struct flow_peer *)request->peer;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    int rc = check_piece(request, i);
    if (rc != 0)
      return rc;
  }
  struct flow_worker *worker = worker_of(peer);
  uint32_t window = window_of(request);
  size_t size = (HEAD + window * worker->wire.op_size + 63) / 64 * 64;
  struct flow_request *own = aligned_alloc(64, size);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "no memory for a request of %u pieces", request->num_pieces);
  memset(own, 0, size);
  *own = (struct flow_request){.request = request, .worker = worker, .peer = peer, .window = window};
  link_init(&own->active);
  link_init(&own->waiting);
  for (uint32_t i = 0; i < window; i++) {
    struct flow_op *op = flow_op_of(own, i);
    op->own = own;
    op->next = own->free;
    own->free = op;
  }
  request->own = own;
  return 0;
}

void flow_unprepare(struct transport_request *request) {
  free(request->own);
  request->own = NULL;
}

// Only the first failure is reported.
static void break_request(struct flow_request *own, int err, const char *why) {
  if (own->err != 0)
    return;
  own->err = err;
  snprintf(own->request->why, sizeof own->request->why, "%s", why);
}

static void fill_status(struct flow_request *own) {
  struct transport_request *request = own->request;
  if (own->err == 0) {
    memset(request->status, 0, request->num_pieces * sizeof *request->status);
    return;
  }
  // The result of a WRITE without settle() is unknown, and the piece in the middle has failed with the rest.
  bool settled =
      request->op == WEFT_TRANSFER_READ || own->worker->wire.settled_when_moved || own->stage > FLOW_SETTLING;
  for (uint32_t i = settled ? own->piece : 0; i < request->num_pieces; i++) {
    if (i >= own->piece || request->status[i] == 0)
      request->status[i] = own->err;
  }
}

// The last touch of the request.
static void finish(struct flow_request *own) {
  struct transport_request *request = own->request;
  void (*done)(struct transport_request *) = request->done;
  int state = own->err;
  link_remove(&own->active);
  if (own->canceled)
    own->worker->doomed--;
  own->worker->events++;
  if (request->status)
    fill_status(own);
  atomic_store_explicit(&request->state, state, memory_order_release);
  if (done)
    done(request);
}

static void wait_for_room(struct flow_request *own) {
  struct flow_peer *peer = own->peer;
  if (own->waiting.next != &own->waiting)
    return;
  link_add(&peer->waiting, &own->waiting);
  if (peer->wanting.next == &peer->wanting)
    link_add(&own->worker->wanting, &peer->wanting);
}

static void stop_waiting(struct flow_request *own) {
  link_remove(&own->waiting);
  if (link_empty(&own->peer->waiting))
    link_remove(&own->peer->wanting);
}

static struct flow_op *take_op(struct flow_request *own) {
  struct flow_op *op = own->free;
  own->free = op->next;
  return op;
}

static void give_op(struct flow_request *own, struct flow_op *op) {
  op->next = own->free;
  own->free = op;
}

// Whether the request may continue; false: the network has no room.
static bool started(struct flow_request *own, struct flow_op *op, int result) {
  own->peer->refused = result == FLOW_AGAIN;
  if (result == FLOW_STARTED) {
    own->running++;
    own->reading += !op->taken;
    own->peer->running++;
    own->running_bytes += op->length;
    return true;
  }
  give_op(own, op);
  if (result == FLOW_AGAIN)
    return false;
  if (result < 0)
    break_request(own, result, weft_last_error());
  return true;
}

static void count_moved(struct flow_request *own, uint64_t length) {
  own->request->moved += length;
}

// Starts operations until all pieces are, or the window is full. False: the network has no room.
static bool move(struct flow_request *own) {
  struct transport_request *request = own->request;
  const struct flow_wire *wire = &own->worker->wire;
  uint64_t done = 0;
  while (own->piece < request->num_pieces && own->err == 0) {
    const struct transport_piece *piece = &request->pieces[own->piece];
    uint64_t length = piece->length - own->offset;
    if (length > most_of(piece))
      length = most_of(piece);
    if (done >= FLOW_BURST)
      return false;
    if (!own->free || (own->running > 0 && own->running_bytes + length > FLOW_WINDOW_BYTES))
      return true;
    if (own->offset == 0 && request->status)
      request->status[own->piece] = 0;
    if (length > 0) {
      struct flow_op *op = take_op(own);
      op->length = length;
      op->piece = own->piece;
      op->taken = false;
      int result = wire->move(own, piece, own->offset, op);
      own->wrote |= result == FLOW_STARTED || result == FLOW_DONE ? request->op == WEFT_TRANSFER_WRITE : false;
      done += result == FLOW_DONE ? length : 0;
      if (result == FLOW_DONE)
        count_moved(own, length);
      else if (result < 0 && request->status)
        request->status[own->piece] = result;
      if (!started(own, op, result))
        return false;
      if (result < 0)
        return true;
    }
    own->offset += length;
    if (own->offset == piece->length) {
      own->piece++;
      own->offset = 0;
    }
  }
  return true;
}

// One operation that is not a piece's. False: the network has no room.
static bool single(struct flow_request *own, int (*start)(struct flow_request *, struct flow_op *)) {
  struct flow_op *op = take_op(own);
  op->length = 0;
  op->piece = UINT32_MAX;
  op->taken = true;
  return started(own, op, start(own, op));
}

// No settle() after operations were ended by force, since a stopped peer would not answer. A deadline that has passed
// is no sufficient reason: if only this process was slow, operations have ended without an error, and their data may
// still be on its way to the peer's memory.
static bool has_to_settle(const struct flow_request *own) {
  return own->wrote && !own->worker->wire.settled_when_moved && !own->peer->lost && !own->severed;
}

// Calls taken() when all pieces have been started and nothing reads their local memory any more.
static void call_taken(struct flow_request *own) {
  struct transport_request *request = own->request;
  if (own->reading > 0 || own->piece < request->num_pieces || own->taken_called)
    return;
  own->taken_called = true;
  if (request->taken)
    request->taken(request);
}

void flow_taken(struct flow_op *op) {
  struct flow_request *own = op->own;
  if (op->taken)
    return;
  op->taken = true;
  own->reading--;
  call_taken(own);
}

// Does everything that is possible now; false: the network has no room. `own->stage` is the stage that was started. A
// request that fails is settled, too: its data must not change the peer's memory after its end.
static bool step(struct flow_request *own) {
  const struct transport_request *request = own->request;
  if (own->peer->lost && own->stage != FLOW_SENDING) // it may have been severed since, and not reported yet
    break_request(own, WEFT_ERR_PEER_LOST, own->peer->why);
  if (own->stage == FLOW_MOVING) {
    if (own->err == 0 && !move(own))
      return false;
    call_taken(own);
    if (own->running > 0 || (own->err == 0 && own->piece < request->num_pieces))
      return true;
    if (has_to_settle(own) && !single(own, own->worker->wire.settle))
      return false;
    own->stage = FLOW_SETTLING;
  }
  if (own->stage == FLOW_SETTLING && own->running == 0 && own->err == 0) {
    if (request->message_size > 0 && !single(own, own->worker->wire.send))
      return false;
    own->stage = FLOW_SENDING;
  }
  return true;
}

// Advances the request as far as possible now; it may end.
void flow_pump(struct flow_request *own) {
  bool room;
  own->pumping = true;
  do {
    own->again = false;
    room = step(own);
  } while (own->again && room);
  own->pumping = false;
  if (!room) {
    wait_for_room(own);
    return;
  }
  if (own->waiting.next != &own->waiting)
    stop_waiting(own);
  if (own->running == 0 && (own->stage == FLOW_SENDING || (own->stage == FLOW_SETTLING && own->err != 0)))
    finish(own);
}

int flow_post(struct transport_request *request) {
  struct flow_request *own = request->own;
  struct flow_peer *peer = own->peer;
  request->moved = 0;
  request->why[0] = '\0';
  if (peer->base.failed) {
    snprintf(request->why, sizeof request->why, "%s", peer->why);
    atomic_store_explicit(&request->state, peer->base.failed, memory_order_release);
    return fail(peer->base.failed, "%s", peer->why);
  }
  own->piece = 0;
  own->offset = 0;
  own->stage = FLOW_MOVING;
  own->canceled = own->wrote = own->taken_called = own->severed = false;
  own->reading = 0;
  own->err = 0;
  link_add(&peer->active, &own->active);
  atomic_store_explicit(&request->state, TRANSPORT_IN_FLIGHT, memory_order_relaxed);
  if (link_empty(&peer->waiting))
    flow_pump(own);
  else
    wait_for_room(own); // behind the requests that were posted before
  return 0;
}

void flow_ended(struct flow_op *op, int err, const char *why) {
  struct flow_request *own = op->own;
  own->running--;
  own->reading -= !op->taken;
  own->peer->running--;
  own->running_bytes -= op->length;
  if (err == 0)
    count_moved(own, op->length);
  else if (op->piece != UINT32_MAX && own->request->status)
    own->request->status[op->piece] = err;
  if (err != 0)
    break_request(own, own->canceled ? WEFT_ERR_CANCELED : err, why);
  give_op(own, op);
  own->again = true;
  if (!own->pumping && (own->waiting.next == &own->waiting || own->err != 0))
    flow_pump(own);
}

void flow_hold(struct flow_request *own) {
  own->pumping = true;
}

void flow_let(struct flow_request *own) {
  own->pumping = false;
  flow_pump(own);
}

void flow_break(struct flow_request *own, int err, const char *why, uint64_t deadline) {
  if (!own->canceled)
    own->worker->doomed++;
  own->deadline = own->canceled && own->deadline < deadline ? own->deadline : deadline;
  own->canceled = true;
  own->severed |= deadline == 0;
  if (own->stage != FLOW_SENDING ||
      err == WEFT_ERR_PEER_LOST) // a message that was sent cannot be cancelled: it ends as the network took it
    break_request(own, err, why);
  if (!own->pumping)
    flow_pump(own);
}

void flow_cancel(struct transport_request *request) {
  if (atomic_load_explicit(&request->state, memory_order_relaxed) == TRANSPORT_IN_FLIGHT)
    flow_break(request->own, WEFT_ERR_CANCELED, "cancelled", clock_deadline_ms(FLOW_GRACE_MS));
}
