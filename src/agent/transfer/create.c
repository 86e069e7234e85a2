// Makes transfers, and frees them.
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/memory/region.h"
#include "agent/peer/message.h"
#include "agent/peer/message_send.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/time/ticks.h"

// Allocates room for the notifications of posts, and copies the one that all posts without their own carry.
static int keep_notification(weft_transfer_t *transfer, const struct weft_transfer_options *options) {
  struct agent_made *made = &transfer->made;
  made->notifies = options->notification != NULL;
  made->size = options->notification_size;
  made->room = options->max_notification;
  if (!made->notifies && made->room == 0)
    return 0;
  if (!transfer->peer->messenger)
    return fail(WEFT_ERR_NOT_CONNECTED, "no transport carries notifications to %s", transfer->peer->name);
  made->room = made->room > 0 && made->room < made->size ? made->size : made->room;
  transfer->note_size = AGENT_HEADER + (made->room > made->size ? made->room : made->size);
  transfer->note = malloc(transfer->note_size);
  made->copy = made->notifies && made->room > 0 ? malloc(made->size + 1) : NULL;
  if (!transfer->note || (made->notifies && made->room > 0 && !made->copy))
    return fail(WEFT_ERR_NOMEM, "no memory for a notification of %u bytes", transfer->note_size - AGENT_HEADER);
  agent_header_fill(transfer->peer, transfer->note, AGENT_NOTIFICATION, made->size, 0);
  if (made->size > 0)
    memcpy(transfer->note + AGENT_HEADER, options->notification, made->size);
  if (made->copy && made->size > 0)
    memcpy(made->copy, options->notification, made->size);
  transfer->message = made->notifies ? transfer->note : NULL;
  transfer->message_size = AGENT_HEADER + made->size;
  return 0;
}

// The transport's side of the pieces.
static void fill_pieces(weft_transfer_t *transfer, struct agent_region **local, struct agent_region **remote,
                        bool swapped) {
  uint32_t worker = transfer->link->worker->index;
  for (uint32_t i = 0; i < transfer->num_pieces; i++) {
    struct transport_piece *piece = &transfer->pieces[i];
    piece->local = (swapped ? remote : local)[i]->local[worker];
    piece->remote = (swapped ? local : remote)[i]->remote[worker];
    if (swapped) {
      uint64_t address = piece->local_address;
      piece->local_address = piece->remote_address;
      piece->remote_address = address;
    }
  }
}

// One request of up to `most` pieces, from `first` on.
static struct transport_request describe_part(const weft_transfer_t *transfer, bool swapped, uint32_t first,
                                              uint32_t most) {
  uint32_t left = transfer->num_pieces - first;
  enum weft_transfer_op back = transfer->op == WEFT_TRANSFER_READ ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ;
  return (struct transport_request){.peer = transfer->link->to,
                                    .op = swapped ? back : transfer->op,
                                    .pieces = transfer->pieces + first,
                                    .num_pieces = left < most ? left : most,
                                    .status = transfer->status + first};
}

// Makes as many requests as the transport's limit requires. A single request carries the notification of all posts. If
// only some posts have one, the request has a copy that carries it. [lock; takes the worker's lock]
static int make_parts(weft_transfer_t *transfer, bool swapped) {
  struct agent_worker *worker = transfer->link->worker;
  const struct transport_abilities *can = &worker->worker->abilities;
  uint32_t most = can->max_pieces > 0 ? can->max_pieces : transfer->num_pieces;
  transfer->num_parts = (transfer->num_pieces + most - 1) / most;
  bool carries = transfer->note && transfer->num_parts == 1 && (can->flags & TRANSPORT_MESSAGES);
  transfer->num_all = transfer->num_parts + (carries && !transfer->made.notifies);
  transfer->all_parts = transfer->parts = calloc(transfer->num_all, sizeof *transfer->parts);
  transfer->status = calloc(transfer->num_pieces, sizeof *transfer->status);
  if (!transfer->parts || !transfer->status)
    return fail(WEFT_ERR_NOMEM, "no memory for %u pieces", transfer->num_pieces);
  int rc = 0;
  agent_worker_lock(worker);
  for (uint32_t i = 0; rc == 0 && i < transfer->num_all; i++) {
    struct agent_post *part = &transfer->all_parts[i];
    part->request = describe_part(transfer, swapped, i < transfer->num_parts ? i * most : 0, most);
    if (carries && i + 1 == transfer->num_all) {
      part->request.message = transfer->note;
      part->request.message_size = transfer->note_size;
    }
    rc = agent_post_prepare(part, worker, transfer, agent_part_ended);
    if (carries && i + 1 == transfer->num_all)
      part->request.message_size = transfer->message_size;
  }
  agent_worker_unlock(worker);
  return rc;
}

// Makes the request that sends the notification if the parts cannot.
static int make_sender(weft_transfer_t *transfer) {
  if (!transfer->note || transfer->all_parts[transfer->num_all - 1].request.message)
    return 0;
  struct agent_worker *messenger = transfer->peer->messenger;
  struct agent_post *sender = transfer->sender = calloc(1, sizeof *sender);
  if (!sender)
    return fail(WEFT_ERR_NOMEM, "no memory for a message");
  sender->request = (struct transport_request){.peer = transfer->peer->links[messenger->index].to,
                                               .op = WEFT_TRANSFER_WRITE,
                                               .message = transfer->note,
                                               .message_size = transfer->note_size};
  agent_worker_lock(messenger);
  int rc = agent_post_prepare(sender, messenger, transfer, agent_transfer_notification_ended);
  agent_worker_unlock(messenger);
  sender->request.message_size = transfer->message_size;
  transfer->outgoing = transfer->made.notifies ? sender : NULL;
  return rc;
}

// Frees what the transport keeps of the transfer, which must not be in flight. [all worker locks, or the worker's and
// the messenger's]
static void unprepare(weft_transfer_t *transfer) {
  for (uint32_t i = 0; transfer->all_parts && i < transfer->num_all; i++)
    agent_post_unprepare(&transfer->all_parts[i]);
  if (transfer->sender)
    agent_post_unprepare(transfer->sender);
}

void agent_transfers_unprepare(struct agent_peer *peer) {
  for (weft_transfer_t *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    unprepare(transfer);
}

// Frees its memory. It is in no list, and no transport keeps anything of it; or it is a forked child's copy.
static void discard(weft_transfer_t *transfer) {
  free(transfer->all_parts);
  free(transfer->sender);
  free(transfer->note);
  free(transfer->made.copy);
  free(transfer->pieces);
  free(transfer->status);
  free(transfer->piece_of);
  free(transfer->explanation);
  free(transfer);
}

// Frees the parts of the transfer that were made.
static void let_go(weft_transfer_t *transfer) {
  agent_workers_lock(transfer->agent);
  unprepare(transfer);
  agent_workers_unlock(transfer->agent);
  if (transfer->event_fd >= 0)
    close(transfer->event_fd);
  transfer->event_fd = -1;
}

static int check_access(enum weft_transfer_op op, const weft_dlist_t *local, const weft_dlist_t *remote) {
  const weft_dlist_t *written = op == WEFT_TRANSFER_WRITE ? remote : local;
  char name[120];
  for (uint32_t i = 0; i < written->num_regions; i++)
    if (written->regions[i]->read_only)
      return fail(WEFT_ERR_INVALID, "%s is registered read-only, and this would write to it",
                  agent_region_name(written->regions[i], name, sizeof name));
  return 0;
}

static int build(weft_transfer_t *transfer, const struct weft_transfer_options *options) {
  struct agent_pairs pairs;
  struct agent_region **local = NULL, **remote = NULL;
  bool swapped = false;
  int rc = agent_pairs_check(transfer->local, transfer->remote, options, &pairs);
  if (rc == 0)
    rc = agent_pairs_merge(&pairs, transfer, &local, &remote);
  if (rc == 0)
    rc = agent_select(transfer, options->transport, &swapped);
  if (rc == 0)
    rc = keep_notification(transfer, options);
  if (rc == 0) {
    fill_pieces(transfer, local, remote, swapped);
    rc = make_parts(transfer, swapped);
  }
  if (rc == 0)
    rc = make_sender(transfer);
  free(local);
  free(remote);
  return rc;
}

static void link_in(weft_transfer_t *transfer) {
  weft_agent_t *agent = transfer->agent;
  struct agent_peer *peer = transfer->peer;
  transfer->next = agent->transfers;
  transfer->back = &agent->transfers;
  transfer->next_of_peer = peer->transfers;
  transfer->back_of_peer = &peer->transfers;
  if (transfer->next)
    transfer->next->back = &transfer->next;
  if (transfer->next_of_peer)
    transfer->next_of_peer->back_of_peer = &transfer->next_of_peer;
  agent->transfers = peer->transfers = transfer;
  transfer->local->transfers++;
  transfer->remote->transfers++;
}

static int create(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                  const struct weft_transfer_options *options, weft_transfer_t **made) {
  if (atomic_load(&remote->peer->failed) != 0)
    return agent_peer_fail(agent, remote->peer->id);
  weft_transfer_t *transfer = calloc(1, sizeof *transfer);
  if (!transfer)
    return fail(WEFT_ERR_NOMEM, "no memory for a transfer");
  transfer->agent = agent;
  transfer->op = op;
  transfer->local = local;
  transfer->remote = remote;
  transfer->peer = remote->peer;
  transfer->event_fd = -1;
  transfer->begin_state = AGENT_IN_FLIGHT;
  transfer->life = agent->life;
  transfer->made.timeout_ms = options->timeout_ms ? options->timeout_ms : agent->options.transfer_timeout_ms;
  transfer->timeout_ns = transfer->made.timeout_ms * UINT64_C(1000000);
  atomic_init(&transfer->timeout_ticks, ticks_of_ns(transfer->timeout_ns));
  atomic_store(&transfer->state, AGENT_NEVER);
  int rc = build(transfer, options);
  if (rc != 0) {
    let_go(transfer);
    discard(transfer);
    return rc;
  }
  link_in(transfer);
  *made = transfer;
  return 0;
}

static int check(const weft_agent_t *agent, enum weft_transfer_op op, const weft_dlist_t *local,
                 const weft_dlist_t *remote, const struct weft_transfer_options *options) {
  if (!agent || !local || !remote)
    return fail(WEFT_ERR_INVALID, "the agent, the transfer or a list is NULL");
  if (op != WEFT_TRANSFER_READ && op != WEFT_TRANSFER_WRITE)
    return fail(WEFT_ERR_INVALID, "%d is not an operation: want WEFT_TRANSFER_READ or WEFT_TRANSFER_WRITE", (int)op);
  int closed = agent_life_check(local->life, "the local list");
  if (closed == 0)
    closed = agent_life_check(remote->life, "the remote list");
  if (closed != 0)
    return closed;
  if (local->agent != agent || remote->agent != agent || local->peer->id != WEFT_PEER_SELF)
    return fail(WEFT_ERR_INVALID,
                "the local list has to hold this agent's own descriptors, and both lists have to belong to this agent");
  if (options->notification_size > WEFT_AGENT_MAX_NOTIFICATION)
    return fail(WEFT_ERR_LIMIT, "a notification has at most %d bytes, not %u", WEFT_AGENT_MAX_NOTIFICATION,
                options->notification_size);
  if (options->max_notification > WEFT_AGENT_MAX_NOTIFICATION)
    return fail(WEFT_ERR_LIMIT, "a notification has at most %d bytes, not %u", WEFT_AGENT_MAX_NOTIFICATION,
                options->max_notification);
  if (options->reserved != 0)
    return fail(WEFT_ERR_INVALID, "reserved is %u, and has to be 0", options->reserved);
  if (options->notification_size > 0 && !options->notification)
    return fail(WEFT_ERR_INVALID, "notification_size is %u, but notification is NULL", options->notification_size);
  return check_access(op, local, remote);
}

int weft_transfer_create(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                         const struct weft_transfer_options *given, weft_transfer_t **transfer) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  static const struct weft_transfer_options defaults = WEFT_TRANSFER_OPTIONS_INIT;
  struct weft_transfer_options copy;
  const struct weft_transfer_options *options = given ? given : &defaults;
  options = SIZED_READ(options, &copy, transport, "weft_transfer_options");
  if (!options)
    return sized_refusal(given, sizeof copy);
  int rc = transfer ? check(agent, op, local, remote, options) : fail(WEFT_ERR_INVALID, "the transfer is NULL");
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&agent->lock);
  rc = create(agent, op, local, remote, options, transfer);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

void agent_transfer_close(weft_transfer_t *transfer) {
  *transfer->back = transfer->next;
  if (transfer->next)
    transfer->next->back = transfer->back;
  *transfer->back_of_peer = transfer->next_of_peer;
  if (transfer->next_of_peer)
    transfer->next_of_peer->back_of_peer = transfer->back_of_peer;
  transfer->local->transfers--;
  transfer->remote->transfers--;
  while (atomic_load(&transfer->leaving) > 0) // a thread is between its last two steps
    sched_yield();
  agent_completion_withdraw(transfer);
  let_go(transfer);
  transfer->life = AGENT_CLOSED;
}

int weft_transfer_free(weft_transfer_t *transfer) {
  if (!transfer)
    return 0;
  if (forked_since(transfer->life)) { // closed, or its agent is another process's: there is only memory
    discard(transfer);
    return 0;
  }
  weft_agent_t *agent = transfer->agent;
  pthread_mutex_lock(&agent->lock);
  bool flies = agent_transfer_flies(transfer);
  if (!flies)
    agent_transfer_close(transfer);
  pthread_mutex_unlock(&agent->lock);
  if (flies)
    return fail(WEFT_ERR_BUSY, "the transfer is in flight: wait for it, or cancel it");
  discard(transfer);
  return 0;
}
