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

static int keep_notification(weft_transfer_t *transfer, const struct weft_transfer_options *options) {
  if (!options->notification && options->notification_size == 0)
    return 0;
  uint32_t size = options->notification_size;
  if (!transfer->peer->messenger)
    return fail(WEFT_ERR_NOT_CONNECTED, "no transport carries notifications to %s", transfer->peer->name);
  transfer->message_size = AGENT_HEADER + size;
  transfer->message = malloc(transfer->message_size);
  if (!transfer->message)
    return fail(WEFT_ERR_NOMEM, "no memory for a notification of %u bytes", size);
  agent_header_fill(transfer->peer, transfer->message, AGENT_NOTIFICATION, size, 0);
  if (size > 0)
    memcpy(transfer->message + AGENT_HEADER, options->notification, size);
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

// As many requests as the transport's limit asks for. [lock; takes the worker's lock]
static int make_parts(weft_transfer_t *transfer, bool swapped) {
  struct agent_worker *worker = transfer->link->worker;
  const struct transport_abilities *can = &worker->worker->abilities;
  uint32_t most = can->max_pieces > 0 ? can->max_pieces : transfer->num_pieces;
  transfer->num_parts = (transfer->num_pieces + most - 1) / most;
  transfer->parts = calloc(transfer->num_parts, sizeof *transfer->parts);
  transfer->status = calloc(transfer->num_pieces, sizeof *transfer->status);
  if (!transfer->parts || !transfer->status)
    return fail(WEFT_ERR_NOMEM, "no memory for %u pieces", transfer->num_pieces);
  bool carries = transfer->message && transfer->num_parts == 1 && (can->flags & TRANSPORT_MESSAGES);
  int rc = 0;
  agent_worker_lock(worker);
  for (uint32_t i = 0; rc == 0 && i < transfer->num_parts; i++) {
    uint32_t first = i * most, left = transfer->num_pieces - first;
    transfer->parts[i].request = (struct transport_request){
        .peer = transfer->link->to,
        .op = swapped ? (transfer->op == WEFT_TRANSFER_READ ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ) : transfer->op,
        .pieces = transfer->pieces + first,
        .num_pieces = left < most ? left : most,
        .status = transfer->status + first,
        .message = carries ? transfer->message : NULL,
        .message_size = carries ? transfer->message_size : 0};
    rc = agent_post_prepare(&transfer->parts[i], worker, transfer, agent_part_ended);
  }
  agent_worker_unlock(worker);
  return rc;
}

// What sends the notification when the parts cannot.
static int make_outgoing(weft_transfer_t *transfer) {
  if (!transfer->message || transfer->parts[0].request.message)
    return 0;
  struct agent_worker *messenger = transfer->peer->messenger;
  transfer->outgoing = calloc(1, sizeof *transfer->outgoing);
  if (!transfer->outgoing)
    return fail(WEFT_ERR_NOMEM, "no memory for a message");
  transfer->outgoing->request = (struct transport_request){.peer = transfer->peer->links[messenger->index].to,
                                                           .op = WEFT_TRANSFER_WRITE,
                                                           .message = transfer->message,
                                                           .message_size = transfer->message_size};
  agent_worker_lock(messenger);
  int rc = agent_post_prepare(transfer->outgoing, messenger, transfer, agent_transfer_notification_ended);
  agent_worker_unlock(messenger);
  return rc;
}

void agent_transfer_unprepare(weft_transfer_t *transfer) {
  for (uint32_t i = 0; transfer->parts && i < transfer->num_parts; i++)
    agent_post_unprepare(&transfer->parts[i]);
  if (transfer->outgoing)
    agent_post_unprepare(transfer->outgoing);
}

void agent_transfers_unprepare(struct agent_peer *peer) {
  for (weft_transfer_t *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    agent_transfer_unprepare(transfer);
}

// Frees what was made of it; it is in no list.
static void discard(weft_transfer_t *transfer) {
  agent_workers_lock(transfer->agent);
  agent_transfer_unprepare(transfer);
  agent_workers_unlock(transfer->agent);
  if (transfer->event_fd >= 0)
    close(transfer->event_fd);
  free(transfer->parts);
  free(transfer->outgoing);
  free(transfer->message);
  free(transfer->pieces);
  free(transfer->status);
  free(transfer->piece_of);
  free(transfer->explanation);
  free(transfer);
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
    rc = make_outgoing(transfer);
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
  transfer->timeout_ns =
      (options->timeout_ms ? options->timeout_ms : agent->options.transfer_timeout_ms) * UINT64_C(1000000);
  transfer->timeout_ticks = ticks_of_ns(transfer->timeout_ns);
  atomic_store(&transfer->state, AGENT_NEVER);
  int rc = build(transfer, options);
  if (rc != 0) {
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
  if (local->agent != agent || remote->agent != agent || local->peer->id != WEFT_PEER_SELF)
    return fail(WEFT_ERR_INVALID,
                "the local list is to be one of this agent's own descriptors, and both of this agent");
  if (options->notification_size > WEFT_AGENT_MAX_NOTIFICATION)
    return fail(WEFT_ERR_LIMIT, "a notification has at most %d bytes, not %u", WEFT_AGENT_MAX_NOTIFICATION,
                options->notification_size);
  if (options->notification_size > 0 && !options->notification)
    return fail(WEFT_ERR_INVALID, "notification_size is %u, but there is no notification", options->notification_size);
  return check_access(op, local, remote);
}

int weft_transfer_create(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                         const struct weft_transfer_options *given, weft_transfer_t **transfer) {
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

void agent_transfer_free(weft_transfer_t *transfer) {
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
  discard(transfer);
}

int weft_transfer_free(weft_transfer_t *transfer) {
  if (!transfer)
    return 0;
  weft_agent_t *agent = transfer->agent;
  pthread_mutex_lock(&agent->lock);
  int rc =
      agent_transfer_flies(transfer) ? fail(WEFT_ERR_BUSY, "the transfer is in flight: wait for it, or cancel it") : 0;
  if (rc == 0)
    agent_transfer_free(transfer);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}
