// Requests of transports to storage, from prepare() to their completion.
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "transport/storage/storage.h"

static int check_local(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *memory = &piece->local->memory;
  uint64_t start = (uint64_t)(uintptr_t)memory->address;
  const struct transport_worker *worker = request->peer->worker;
  if (!(worker->abilities.local_kinds & 1u << memory->kind))
    return fail(WEFT_ERR_INVALID, "piece %u: its local side is memory of a kind that the transport %s does not move", i,
                worker->transport->name);
  if (piece->local_address < start || piece->length > memory->length ||
      piece->local_address - start > memory->length - piece->length)
    return fail(WEFT_ERR_LIMIT, "piece %u: its local side is outside its region", i);
  if (request->op == WEFT_TRANSFER_READ && memory->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u: its local side was registered as read-only", i);
  return 0;
}

static int check_remote(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *memory = &((struct storage_remote *)piece->remote)->region->base.memory;
  uint64_t most = memory->length ? memory->length : INT64_MAX;
  if (piece->remote->peer != request->peer)
    return fail(WEFT_ERR_INVALID, "piece %u: its remote side belongs to another peer", i);
  if (piece->length > most || piece->remote_address > most - piece->length)
    return fail(WEFT_ERR_LIMIT, "piece %u: bytes %llu to %llu of %s were asked for, which is registered up to %llu", i,
                (unsigned long long)piece->remote_address, (unsigned long long)(piece->remote_address + piece->length),
                memory->path ? memory->path : "a file", (unsigned long long)most);
  if (request->op == WEFT_TRANSFER_WRITE && memory->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u: %s was registered as read-only", i,
                memory->path ? memory->path : "its file");
  return 0;
}

int storage_request_init(struct transport_request *request, struct storage_request *own) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    int rc = check_local(request, i);
    if (rc == 0)
      rc = check_remote(request, i);
    if (rc < 0)
      return rc;
  }
  own->left = calloc(request->num_pieces + 1u, sizeof *own->left);
  if (!own->left)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  own->request = request;
  link_init(&own->link);
  atomic_store_explicit(&request->state, 0, memory_order_release);
  return 0;
}

void storage_request_free(struct storage_request *own) {
  free(own->left);
}

int storage_request_begin(struct transport_request *request) {
  struct storage_request *own = request->own;
  struct storage_worker *worker = (struct storage_worker *)request->peer->worker;
  if (atomic_load_explicit(&request->state, memory_order_acquire) == TRANSPORT_IN_FLIGHT)
    return fail(WEFT_ERR_BUSY, "the request is in flight");
  int rc = 0;
  if (worker->closing)
    rc = fail(WEFT_ERR_CLOSED, "the transport %s is being closed", worker->base.transport->name);
  else if (request->peer->failed)
    rc = fail(request->peer->failed, "the peer is gone");
  for (uint32_t i = 0; i < request->num_pieces && rc == 0; i++) {
    own->left[i] = request->pieces[i].length;
    if (request->status)
      request->status[i] = 0;
  }
  request->moved = 0;
  request->why[0] = '\0';
  own->err = 0;
  own->canceled = false;
  atomic_store_explicit(&request->state, rc ? rc : TRANSPORT_IN_FLIGHT, memory_order_release);
  if (rc < 0)
    return rc;
  own->peer = (struct storage_peer *)request->peer;
  own->peer->num_active++;
  worker->num_active++;
  link_add(&worker->active, &own->link);
  return 0;
}

void storage_request_moved(struct storage_request *own, uint32_t piece, uint64_t bytes) {
  own->left[piece] -= bytes;
  own->request->moved += bytes;
}

void storage_request_failed(struct storage_request *own, uint32_t piece, int err) {
  struct transport_request *request = own->request;
  if (request->status && request->status[piece] == 0)
    request->status[piece] = err;
  if (own->err)
    return;
  own->err = err;
  snprintf(request->why, sizeof request->why, "%s", weft_last_error());
}

void storage_request_end(struct storage_request *own) {
  struct transport_request *request = own->request;
  struct storage_worker *worker = (struct storage_worker *)own->peer->base.worker;
  bool complete = true;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    if (own->left[i] == 0)
      continue;
    complete = false;
    if (request->status && request->status[i] == 0)
      request->status[i] = own->canceled || !own->err ? WEFT_ERR_CANCELED : own->err;
  }
  if (own->err == 0 && (!complete || (own->canceled && request->num_pieces == 0))) {
    own->err = WEFT_ERR_CANCELED;
    if (!request->why[0])
      snprintf(request->why, sizeof request->why, "cancelled");
  }
  link_remove(&own->link);
  link_add(&worker->ended, &own->link);
}

void storage_request_complete(struct storage_request *own) {
  struct transport_request *request = own->request;
  struct storage_worker *worker = (struct storage_worker *)own->peer->base.worker;
  const struct transport_options *options = &worker->base.options;
  link_remove(&own->link);
  own->peer->num_active--;
  worker->num_active--;
  if (own->err == 0 && request->message_size > 0 && options->on_message)
    options->on_message(options->arg, request->message, request->message_size);
  // Once the state is stored, the owner may free the request, unless it has set `done`.
  void (*done)(struct transport_request *) = request->done;
  atomic_store_explicit(&request->state, own->err, memory_order_release);
  if (done)
    done(request);
}
