// Receives messages: notifications for the application, control messages for housekeeping.
#include "agent/peer/message_recv.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/peer/message.h"
#include "agent/peer/message_send.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"

enum { SMALL = 256 - sizeof(struct agent_note), LARGE = WEFT_AGENT_MAX_NOTIFICATION };

// --- a queue with many writers and one reader (Vyukov): `first` is a note that was taken already ---

static int queue_open(struct agent_inbox *inbox) {
  struct agent_note *stub = calloc(1, sizeof *stub);
  if (!stub)
    return fail(WEFT_ERR_NOMEM, "no memory for a queue");
  inbox->first = stub;
  atomic_store(&inbox->last, stub);
  return 0;
}

static void push(struct agent_inbox *inbox, struct agent_note *note) {
  atomic_store_explicit(&note->next, NULL, memory_order_relaxed);
  struct agent_note *before = atomic_exchange(&inbox->last, note);
  atomic_store_explicit(&before->next, note, memory_order_release);
}

// Takes the oldest note, which becomes `first`; the previous `first` becomes `*used`, which has to be given back. NULL:
// there is none, or its writer has not linked it yet.
static struct agent_note *pop(struct agent_inbox *inbox, struct agent_note **used) {
  struct agent_note *next = atomic_load_explicit(&inbox->first->next, memory_order_acquire);
  if (!next)
    return NULL;
  *used = inbox->first;
  inbox->first = next;
  return next;
}

// --- notes: a worker's notes are taken with its lock held, so by one thread at a time; any thread gives them back ---

static struct agent_note *take_note(struct agent_worker *worker, uint32_t size) {
  bool large = size > SMALL;
  _Atomic(struct agent_note *) *spare = &worker->spare_notes[large];
  struct agent_note *note = atomic_load(spare);
  while (note && !atomic_compare_exchange_weak(spare, &note, atomic_load(&note->next)))
    ;
  if (!note)
    note = malloc(sizeof *note + (large ? LARGE : SMALL));
  if (note)
    note->large = large;
  return note;
}

static void give_note(struct agent_note *note) {
  if (!note->worker) { // the queue's first
    free(note);
    return;
  }
  _Atomic(struct agent_note *) *spare = &note->worker->spare_notes[note->large];
  struct agent_note *first = atomic_load(spare);
  do
    atomic_store(&note->next, first);
  while (!atomic_compare_exchange_weak(spare, &first, note));
}

int agent_inbox_open(weft_agent_t *agent) {
  int rc = queue_open(&agent->inbox);
  return rc == 0 ? queue_open(&agent->control) : rc;
}

static void free_chain(struct agent_note *note) {
  while (note) {
    struct agent_note *next = atomic_load(&note->next);
    free(note);
    note = next;
  }
}

void agent_inbox_free(weft_agent_t *agent) {
  free_chain(agent->inbox.first);
  free_chain(agent->inbox.held);
  free_chain(agent->control.first);
  for (uint32_t i = 0; i < AGENT_MAX_WORKERS; i++) {
    free_chain(atomic_load(&agent->workers[i].spare_notes[0]));
    free_chain(atomic_load(&agent->workers[i].spare_notes[1]));
  }
}

// --- received messages ---

// A sender that keeps to its credits never has more unread than there is room for.
static void keep(struct agent_worker *worker, struct agent_peer *peer, const struct agent_header *header,
                 const uint8_t *bytes) {
  weft_agent_t *agent = worker->agent;
  bool notification = header->kind == AGENT_NOTIFICATION;
  struct agent_note *note = NULL;
  _Atomic uint32_t *waiting = notification ? &peer->unread : &peer->news;
  bool beyond = atomic_fetch_add(waiting, 1) >= (notification ? AGENT_CREDITS : AGENT_NEWS);
  if (!beyond)
    note = take_note(worker, header->size);
  else if (!atomic_exchange(&peer->flooded, true)) // a peer that forgot this agent and loaded it again may do so, too
    log_warn("%s sends more messages than it may: they are dropped", peer->name);
  if (!note) {
    atomic_fetch_sub(waiting, 1);
    atomic_fetch_add(&agent->dropped, 1);
    return;
  }
  note->worker = worker;
  note->peer = peer;
  note->peer_id = peer->id;
  note->kind = header->kind;
  note->sequence = header->sequence;
  note->size = header->size;
  memcpy(note->bytes, bytes, header->size);
  if (notification)
    atomic_fetch_add(&agent->signal.waiting, 1);
  push(notification ? &agent->inbox : &agent->control, note);
  if (notification)
    agent_signal(agent);
  else
    atomic_store(&agent->attention, true);
}

// Messages before the first one of a peer were dropped, or are read as messages of its earlier incarnation as a peer.
static void meet(struct agent_peer *peer, const struct agent_header *header) {
  bool counts = header->kind == AGENT_NOTIFICATION && header->sequence > 0;
  if (!atomic_exchange(&peer->heard, true))
    agent_credit_taken(peer, header->sequence - counts);
}

void agent_inbox_message(void *arg, const void *bytes, size_t size) {
  struct agent_worker *worker = arg;
  weft_agent_t *agent = worker->agent;
  struct agent_header header;
  struct agent_peer *peer = NULL;
  if (agent_header_read(bytes, size, &header) && header.to == agent->incarnation &&
      header.size <= WEFT_AGENT_MAX_NOTIFICATION)
    peer = agent_peer_of(agent, header.from);
  if (!peer) { // of an earlier life of its sender, or of ours; or damaged
    atomic_fetch_add(&agent->dropped, 1);
    return;
  }
  atomic_store_explicit(&peer->received_ns, clock_ns(), memory_order_relaxed);
  agent_credit_take_in(peer, header.credit);
  if (!atomic_load_explicit(&peer->heard, memory_order_relaxed))
    meet(peer, &header);
  if (header.kind == AGENT_NOTIFICATION || header.kind == AGENT_GOODBYE || header.kind == AGENT_UPDATE)
    keep(worker, peer, &header, (const uint8_t *)bytes + AGENT_HEADER);
}

void agent_inbox_housekeep(weft_agent_t *agent) {
  struct agent_note *note, *used;
  while ((note = pop(&agent->control, &used))) {
    give_note(used);
    agent->hooks->control_message(agent, note->peer_id, note->kind, note->bytes, note->size);
    atomic_fetch_sub(&note->peer->news, 1); // the last look at the peer: then it may go
  }
}

// --- the application's side ---

// The notifications handed out before are read now: the peers may send more.
static void give_back(weft_agent_t *agent) {
  struct agent_note *note = agent->inbox.held;
  while (note) {
    struct agent_note *next = atomic_load(&note->next);
    give_note(note);
    note = next;
  }
  agent->inbox.held = NULL;
}

// The last look at the peer: then it may go.
static void took(weft_agent_t *agent, struct agent_note *note) {
  struct agent_peer *peer = note->peer;
  agent_credit_taken(peer, note->sequence);
  atomic_fetch_add_explicit(&peer->num_taken, 1, memory_order_relaxed);
  if (atomic_load(&peer->taken) - atomic_load(&peer->acknowledged) >= AGENT_CREDIT_BATCH)
    agent_credit_send(agent, peer);
  atomic_fetch_sub(&peer->unread, 1);
}

int weft_agent_notifications(weft_agent_t *agent, struct weft_notification *notifications, uint32_t cap,
                             uint32_t *count) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!count || (cap > 0 && !notifications))
    return fail(WEFT_ERR_INVALID, "the notifications or the count is NULL");
  uint32_t number = 0;
  give_back(agent);
  struct agent_note *note, *used, *last = NULL;
  while (number < cap && (note = pop(&agent->inbox, &used))) {
    // The note that is handed out last stays the queue's first, and is given back when the next one has been taken.
    if (last) {
      atomic_store(&used->next, agent->inbox.held);
      agent->inbox.held = used;
    } else {
      give_note(used);
    }
    last = note;
    notifications[number++] =
        (struct weft_notification){.peer = note->peer_id, .bytes = note->bytes, .size = note->size};
    took(agent, note);
  }
  if (number > 0)
    atomic_fetch_sub(&agent->signal.waiting, number);
  if (number < cap)
    agent_signal_clear(agent);
  *count = number;
  return 0;
}
