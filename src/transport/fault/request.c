// Requests: the fault of each is drawn at random when it is posted.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/fault/fault.h"

static struct fault_worker *worker_of(const struct fault_op *op) {
  return (struct fault_worker *)op->outer->peer->worker;
}

static bool draw(struct fault_worker *worker, uint32_t percent) {
  return percent > 0 && random_next(&worker->random) % 100 < percent;
}

static void inner_done(struct transport_request *inner);

// --- a wrong byte: in a WRITE it is wrong from the post to its end, in a READ from the end on ---

static void flip(struct fault_op *op) {
  if (op->spoilt)
    *op->spoilt ^= 0x5A;
}

static void spoil(struct fault_worker *worker, struct fault_op *op) {
  const struct transport_request *outer = op->outer;
  op->spoilt = NULL;
  if (outer->num_pieces == 0 || outer->pieces[0].local->memory.kind != WEFT_MEMORY_HOST ||
      !draw(worker, worker->script->spoil))
    return;
  op->spoilt = (unsigned char *)(uintptr_t)(outer->pieces[0].local_address + outer->pieces[0].length / 2);
  if (outer->op == WEFT_TRANSFER_WRITE)
    flip(op);
}

static void unspoil(struct fault_op *op, int state) {
  if (op->outer->op == WEFT_TRANSFER_WRITE || state == 0)
    flip(op);
  op->spoilt = NULL;
}

int fault_prepare(struct transport_request *request) {
  const struct fault_worker *worker = (const struct fault_worker *)request->peer->worker;
  struct fault_op *op = calloc(1, sizeof *op);
  if (op && request->num_pieces)
    op->pieces = calloc(request->num_pieces, sizeof *op->pieces);
  if (!op || (request->num_pieces && !op->pieces)) {
    free(op);
    return fail(WEFT_ERR_NOMEM, "no memory for a request with faults");
  }
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    op->pieces[i] = request->pieces[i];
    op->pieces[i].local = ((struct fault_region *)request->pieces[i].local)->inner;
    op->pieces[i].remote = ((struct fault_remote *)request->pieces[i].remote)->inner;
  }
  link_init(&op->link);
  op->table = worker->inner_table;
  op->outer = request;
  op->inner.peer = ((struct fault_peer *)request->peer)->inner;
  op->inner.op = request->op;
  op->inner.pieces = op->pieces;
  op->inner.num_pieces = request->num_pieces;
  op->inner.status = request->status;
  op->inner.message = request->message;
  op->inner.message_size = request->message_size;
  op->inner.done = inner_done;
  op->inner.arg = op;
  int rc = worker->inner_table->prepare(&op->inner);
  if (rc != 0) {
    free(op->pieces);
    free(op);
    return rc;
  }
  request->own = op;
  return 0;
}

void fault_unprepare(struct transport_request *request) {
  struct fault_op *op = request->own;
  if (!op)
    return;
  op->table->unprepare(&op->inner);
  free(op->pieces);
  free(op);
  request->own = NULL;
}

// The last touch of the request.
static void end(struct fault_op *op, int state) {
  struct transport_request *outer = op->outer;
  struct fault_peer *peer = (struct fault_peer *)outer->peer;
  void (*done)(struct transport_request *) = outer->done;
  link_remove(&op->link);
  op->hold = HOLD_NOT;
  atomic_store_explicit(&outer->state, state, memory_order_release);
  if (done)
    done(outer);
  if (--peer->flights == 0 && peer->closing)
    fault_peer_free(peer);
}

static void end_with(struct fault_op *op, int err, const char *why) {
  struct transport_request *outer = op->outer;
  for (uint32_t i = 0; outer->status && i < outer->num_pieces; i++)
    outer->status[i] = err;
  snprintf(outer->why, sizeof outer->why, "%s", why);
  end(op, err);
}

static void hold(struct fault_op *op, enum fault_hold how, uint64_t ticks) {
  struct fault_worker *worker = worker_of(op);
  op->hold = how;
  op->until = worker->ticks + ticks;
  link_add(&worker->held, &op->link);
}

// The inner request has ended: completes the outer one, now or with the delay of the script.
static void inner_done(struct transport_request *inner) {
  struct fault_op *op = inner->arg;
  struct transport_request *outer = op->outer;
  const struct fault_peer *peer = (const struct fault_peer *)outer->peer;
  op->state = atomic_load(&inner->state);
  unspoil(op, op->state);
  outer->moved = inner->moved;
  memcpy(outer->why, inner->why, sizeof outer->why);
  if (op->cut && op->state == 0) {
    for (uint32_t i = op->num_pieces; outer->status && i < outer->num_pieces; i++)
      outer->status[i] = WEFT_ERR_DATA;
    snprintf(outer->why, sizeof outer->why, "only %u of %u pieces were moved (a fault on purpose)", op->num_pieces,
             outer->num_pieces);
    op->state = WEFT_ERR_DATA;
  }
  if (op->late && !peer->closing && op->state != WEFT_ERR_CANCELED)
    hold(op, HOLD_END, 1 + random_next(&worker_of(op)->random) % worker_of(op)->script->delay_ticks);
  else
    end(op, op->state);
}

static void begin(struct fault_op *op) {
  op->hold = HOLD_NOT;
  link_remove(&op->link);
  int rc = worker_of(op)->inner_table->post(&op->inner);
  if (rc != 0)
    end_with(op, rc, op->inner.why);
}

static int refuse(struct transport_request *request, int err, const char *why) {
  for (uint32_t i = 0; request->status && i < request->num_pieces; i++)
    request->status[i] = err;
  snprintf(request->why, sizeof request->why, "%s", why);
  atomic_store_explicit(&request->state, err, memory_order_release);
  return fail(err, "%s", why);
}

// Chooses which pieces move and whether the message is sent, for this post.
static void set_up(struct fault_worker *worker, struct fault_op *op) {
  const struct transport_request *outer = op->outer;
  op->cut = outer->num_pieces > 0 && draw(worker, worker->script->short_);
  op->num_pieces = op->cut ? (uint32_t)(random_next(&worker->random) % outer->num_pieces) : outer->num_pieces;
  for (uint32_t i = 0; i < outer->num_pieces; i++) {
    op->pieces[i].length = outer->pieces[i].length;
    op->pieces[i].local_address = outer->pieces[i].local_address;
    op->pieces[i].remote_address = outer->pieces[i].remote_address;
  }
  op->inner.num_pieces = op->num_pieces;
  bool lost = draw(worker, worker->script->lose);
  op->inner.message = op->cut || lost ? NULL : outer->message;
  op->inner.message_size = outer->message_size;
  op->inner.status = outer->status;
}

static void die(struct fault_peer *peer) {
  peer->died = true;
  peer->base.failed = WEFT_ERR_PEER_LOST;
}

static bool is_big(const struct fault_script *script, const struct transport_request *request) {
  uint64_t bytes = request->message_size;
  for (uint32_t i = 0; i < request->num_pieces; i++)
    bytes += request->pieces[i].length;
  return script->big && bytes > script->big;
}

int fault_post(struct transport_request *request) {
  struct fault_op *op = request->own;
  struct fault_peer *peer = (struct fault_peer *)request->peer;
  struct fault_worker *worker = worker_of(op);
  uint64_t number = ++worker->posts;
  if (number == worker->script->die)
    die(peer);
  if (peer->died)
    return refuse(request, WEFT_ERR_PEER_LOST, "the peer has died (a fault on purpose)");
  if (draw(worker, worker->script->fail))
    return refuse(request, WEFT_ERR_UNREACHABLE, "the post failed (a fault on purpose)");
  set_up(worker, op);
  bool stuck = (worker->script->mute && number >= worker->script->mute) || draw(worker, worker->script->stick) ||
               is_big(worker->script, request);
  bool delayed = draw(worker, worker->script->delay), early = random_next(&worker->random) % 2;
  early = early && !request->message; // messages keep their order
  request->why[0] = '\0';
  request->moved = 0;
  atomic_store(&request->state, TRANSPORT_IN_FLIGHT);
  peer->flights++;
  op->late = delayed && !early;
  if (stuck) {
    hold(op, HOLD_STUCK, 0);
  } else if (delayed && early) {
    hold(op, HOLD_BEGIN, 1 + random_next(&worker->random) % worker->script->delay_ticks);
  } else {
    spoil(worker, op);
    int rc = worker->inner_table->post(&op->inner);
    if (rc != 0) {
      unspoil(op, rc);
      peer->flights--;
      return refuse(request, rc, op->inner.why);
    }
  }
  return 0;
}

void fault_cancel(struct transport_request *request) {
  struct fault_op *op = request->own;
  if (!op || atomic_load(&request->state) != TRANSPORT_IN_FLIGHT)
    return;
  op->late = false;
  if (op->hold == HOLD_STUCK && worker_of(op)->script->cling)
    return;
  if (op->hold == HOLD_END)
    end(op, op->state);
  else if (op->hold != HOLD_NOT)
    end_with(op, WEFT_ERR_CANCELED, "cancelled");
  else
    worker_of(op)->inner_table->cancel(&op->inner);
}

uint32_t fault_release_due(struct fault_worker *worker) {
  uint32_t count = 0;
  struct link *link = worker->held.next;
  while (link != &worker->held) {
    struct fault_op *op = LINK_OF(link, struct fault_op, link);
    link = link->next;
    if (op->hold == HOLD_STUCK || op->until > worker->ticks)
      continue;
    count++;
    if (op->hold == HOLD_BEGIN)
      begin(op);
    else
      end(op, op->state);
    link = worker->held.next; // the callback may have changed the list
  }
  return count;
}

void fault_end_held(struct fault_worker *worker, const struct fault_peer *peer, int err, const char *why) {
  struct link *link = worker->held.next;
  while (link != &worker->held) {
    struct fault_op *op = LINK_OF(link, struct fault_op, link);
    link = link->next;
    if (peer && (op->outer->peer != &peer->base || (op->hold == HOLD_STUCK && worker->script->cling == 2)))
      continue;
    if (op->hold == HOLD_END)
      end(op, op->state);
    else
      end_with(op, err, why);
    link = worker->held.next;
  }
}

uint32_t fault_report_deaths(struct fault_worker *worker) {
  for (struct link *link = worker->peers.next; link != &worker->peers; link = link->next) {
    struct fault_peer *peer = LINK_OF(link, struct fault_peer, link);
    if (!peer->died || peer->reported || peer->closing)
      continue;
    peer->reported = true;
    fault_end_held(worker, peer, WEFT_ERR_PEER_LOST, "the peer has died (a fault on purpose)");
    if (worker->base.options.on_peer)
      worker->base.options.on_peer(worker->base.options.arg, &peer->base, WEFT_ERR_PEER_LOST,
                                   "it has died (a fault on purpose)");
    return 1; // one at a time: the list may have changed
  }
  return 0;
}
