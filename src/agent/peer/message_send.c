// Sends messages to peers, within the credits of notifications.
#include "agent/peer/message_send.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/peer/message.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "base/fail.h"

// A message without data. The peer's are prepared once, and used again and again.
struct agent_outgoing {
  struct agent_post post; // first
  struct agent_peer *peer;
  struct agent_outgoing *next;                 // of all
  _Atomic(struct agent_outgoing *) next_spare; // in the list of those not in flight
  uint64_t starts;
  _Atomic int err;   // of the last start, TRANSPORT_IN_FLIGHT until it has ended
  uint64_t sequence; // of a notification; 0: another message
  uint8_t bytes[AGENT_HEADER + WEFT_AGENT_MAX_NOTIFICATION];
};

_Static_assert(AGENT_HEADER + WEFT_AGENT_MAX_NOTIFICATION <= TRANSPORT_MAX_MESSAGE, "transports carry it");

static void raise_to(_Atomic uint64_t *number, uint64_t to) {
  uint64_t now = atomic_load_explicit(number, memory_order_relaxed);
  while (now < to && !atomic_compare_exchange_weak(number, &now, to))
    ;
}

void agent_credit_open(weft_agent_t *agent, struct agent_peer *peer) {
  peer->numbered_from = agent->numbered;
  atomic_store(&peer->sent, agent->numbered);
  atomic_store(&peer->arrived, agent->numbered);
  atomic_store(&peer->read, agent->numbered);
}

void agent_credit_close(weft_agent_t *agent, const struct agent_peer *peer) {
  uint64_t sent = atomic_load(&peer->sent);
  agent->numbered = sent > agent->numbered ? sent : agent->numbered;
}

uint64_t agent_credit_take(struct agent_peer *peer) {
  uint32_t on_way = atomic_fetch_add(&peer->on_way, 1);
  uint64_t read = atomic_load(&peer->read), arrived = atomic_load(&peer->arrived);
  uint64_t unread = arrived > read ? arrived - read : 0;
  if (on_way + unread >= AGENT_CREDITS) {
    atomic_fetch_sub(&peer->on_way, 1);
    return 0;
  }
  return atomic_fetch_add(&peer->sent, 1) + 1;
}

void agent_credit_end(struct agent_peer *peer, uint64_t sequence, int err) {
  if (err == 0)
    raise_to(&peer->arrived, sequence);
  atomic_fetch_sub(&peer->on_way, 1);
}

void agent_credit_take_in(struct agent_peer *peer, uint64_t sequence) {
  if (sequence <= atomic_load_explicit(&peer->sent, memory_order_relaxed))
    raise_to(&peer->read, sequence);
}

void agent_credit_taken(struct agent_peer *peer, uint64_t sequence) {
  raise_to(&peer->taken, sequence);
}

void agent_credit_send(weft_agent_t *agent, struct agent_peer *peer) {
  agent_send(agent, peer, AGENT_CREDIT, NULL, 0);
}

void agent_header_fill(struct agent_peer *peer, uint8_t *bytes, enum agent_message_kind kind, uint32_t size,
                       uint64_t sequence) {
  uint64_t taken = atomic_load_explicit(&peer->taken, memory_order_relaxed);
  atomic_store_explicit(&peer->acknowledged, taken, memory_order_relaxed);
  struct agent_header header = {.kind = kind,
                                .size = size,
                                .from = peer->mark_out,
                                .to = peer->incarnation,
                                .sequence = sequence,
                                .credit = taken};
  agent_header_write(bytes, &header);
}

// --- outgoing messages ---

// The last touch of the message is that it becomes spare.
static void outgoing_ended(struct agent_post *post, int err) {
  struct agent_outgoing *outgoing = post->owner;
  struct agent_peer *peer = outgoing->peer;
  atomic_store(&outgoing->err, err);
  if (outgoing->sequence > 0)
    agent_credit_end(peer, outgoing->sequence, err);
  struct agent_outgoing *first = atomic_load(&peer->spare);
  do
    atomic_store(&outgoing->next_spare, first);
  while (!atomic_compare_exchange_weak(&peer->spare, &first, outgoing));
  atomic_fetch_sub(&peer->flying, 1);
}

static int make_outgoing(struct agent_peer *peer, struct agent_outgoing **made) {
  struct agent_outgoing *outgoing = calloc(1, sizeof *outgoing);
  if (!outgoing)
    return fail(WEFT_ERR_NOMEM, "no memory for a message");
  outgoing->peer = peer;
  outgoing->post.request = (struct transport_request){.peer = peer->links[peer->messenger->index].to,
                                                      .op = WEFT_TRANSFER_WRITE,
                                                      .message = outgoing->bytes,
                                                      .message_size = sizeof outgoing->bytes};
  int rc = agent_post_prepare(&outgoing->post, peer->messenger, outgoing, outgoing_ended);
  if (rc != 0) {
    free(outgoing);
    return rc;
  }
  outgoing->next = peer->outgoing_all;
  peer->outgoing_all = outgoing;
  *made = outgoing;
  return 0;
}

// [worker lock of the messenger: only its holder takes from the spare ones]
static int take_outgoing(struct agent_peer *peer, struct agent_outgoing **outgoing) {
  struct agent_outgoing *spare = atomic_load(&peer->spare);
  while (spare && !atomic_compare_exchange_weak(&peer->spare, &spare, atomic_load(&spare->next_spare)))
    ;
  if (!spare)
    return make_outgoing(peer, outgoing);
  *outgoing = spare;
  return 0;
}

static int send_held(struct agent_peer *peer, enum agent_message_kind kind, const void *bytes, uint32_t size,
                     uint64_t sequence) {
  int err = atomic_load(&peer->failed);
  struct agent_outgoing *outgoing = NULL;
  int rc = err == 0 ? take_outgoing(peer, &outgoing) : fail(err, "%s is gone", peer->name);
  if (rc != 0) {
    if (sequence > 0)
      agent_credit_end(peer, sequence, rc);
    return rc;
  }
  outgoing->sequence = sequence;
  atomic_store(&outgoing->err, TRANSPORT_IN_FLIGHT);
  outgoing->post.request.message_size = AGENT_HEADER + size;
  agent_header_fill(peer, outgoing->bytes, kind, size, sequence > 0 ? sequence : atomic_load(&peer->arrived));
  if (size > 0)
    memcpy(outgoing->bytes + AGENT_HEADER, bytes, size);
  atomic_fetch_add(&peer->flying, 1);
  agent_post_start_held(&outgoing->post, ++outgoing->starts);
  err = atomic_load(&outgoing->err); // still this start's: the next one needs the worker's lock
  return err < 0 ? fail(err, "%s", outgoing->post.request.why) : 0;
}

static int send_numbered(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
                         uint32_t size, uint64_t sequence) {
  struct agent_worker *messenger = peer->messenger;
  if (!messenger) {
    if (sequence > 0)
      agent_credit_end(peer, sequence, WEFT_ERR_NOT_CONNECTED);
    return fail(WEFT_ERR_NOT_CONNECTED, "no transport carries messages to %s", peer->name);
  }
  agent_worker_lock(messenger);
  int rc = send_held(peer, kind, bytes, size, sequence);
  agent_worker_unlock(messenger);
  if (rc == 0 && atomic_load(&agent->asleep))
    agent_wake(agent);
  return rc;
}

int agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
               uint32_t size) {
  if (size > WEFT_AGENT_MAX_NOTIFICATION)
    return fail(WEFT_ERR_LIMIT, "a message has at most %d bytes, not %u", WEFT_AGENT_MAX_NOTIFICATION, size);
  bool repeats = kind == AGENT_CREDIT || kind == AGENT_HEARTBEAT; // a later message says the same
  return repeats && agent_outgoing_full(peer) ? 0 : send_numbered(agent, peer, kind, bytes, size, 0);
}

void agent_outgoing_cancel(struct agent_peer *peer) {
  if (!peer->messenger)
    return;
  agent_worker_lock(peer->messenger);
  for (struct agent_outgoing *outgoing = peer->outgoing_all; outgoing; outgoing = outgoing->next)
    agent_post_cancel(&outgoing->post, outgoing->starts);
  agent_worker_unlock(peer->messenger);
}

bool agent_outgoing_idle(struct agent_peer *peer) {
  return atomic_load(&peer->flying) == 0;
}

bool agent_outgoing_full(struct agent_peer *peer) {
  return atomic_load(&peer->flying) >= AGENT_FLYING;
}

void agent_outgoing_free(struct agent_peer *peer) {
  struct agent_outgoing *next;
  for (struct agent_outgoing *outgoing = peer->outgoing_all; outgoing; outgoing = next) {
    next = outgoing->next;
    agent_post_unprepare(&outgoing->post);
    free(outgoing);
  }
  peer->outgoing_all = NULL;
  atomic_store(&peer->spare, NULL);
}

int weft_agent_notify(weft_agent_t *agent, weft_peer_t id, const void *bytes, uint32_t size) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (size > 0 && !bytes)
    return fail(WEFT_ERR_INVALID, "the bytes are NULL");
  if (size > WEFT_AGENT_MAX_NOTIFICATION)
    return fail(WEFT_ERR_LIMIT, "a notification has at most %d bytes, not %u", WEFT_AGENT_MAX_NOTIFICATION, size);
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer;
  int rc = agent_peer_living(agent, id, &peer);
  uint64_t sequence = rc == 0 ? agent_credit_take(peer) : 0;
  if (rc == 0 && sequence == 0)
    rc = fail(WEFT_ERR_BUSY, "%s has %d notifications that it has not read", peer->name, AGENT_CREDITS);
  if (rc == 0)
    rc = send_numbered(agent, peer, AGENT_NOTIFICATION, bytes, size, sequence);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}
