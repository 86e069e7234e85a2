// Requests: copies in the stream of one GPU, then a message.
#include "transport/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static struct cuda_worker *worker_of(const struct transport_request *request) {
  return (struct cuda_worker *)request->peer->worker;
}

// The GPU of the local side, else of the peer's if it is seen here, else the first one.
static int choose_device(const struct cuda_worker *worker, const struct transport_piece *piece) {
  const struct cuda_remote *remote = (const struct cuda_remote *)piece->remote;
  if (piece->local->memory.kind == WEFT_MEMORY_CUDA)
    return piece->local->memory.device;
  int index = remote->base.kind == WEFT_MEMORY_CUDA ? cuda_device_find(worker, remote->share.uuid) : -1;
  return index < 0 ? 0 : index;
}

// Whether [at, at + length) lies in [from, from + size).
static bool within(uint64_t at, uint64_t length, uint64_t from, uint64_t size) {
  return length > 0 && at >= from && at - from <= size && length <= size - (at - from);
}

static int check_piece(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *local = &piece->local->memory;
  const struct cuda_remote *remote = (const struct cuda_remote *)piece->remote;
  if (!within(piece->local_address, piece->length, (uintptr_t)local->address, local->length))
    return fail(WEFT_ERR_INVALID, "piece %u is not within its local region", i);
  if (!within(piece->remote_address, piece->length, remote->base.address, remote->base.length))
    return fail(WEFT_ERR_INVALID, "piece %u is not within the peer's region", i);
  if (request->op == WEFT_TRANSFER_WRITE ? remote->read_only : local->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u would write to a region that is read-only", i);
  return 0;
}

static int make_copies(const struct transport_request *request, int device, struct device_copy *copies) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct transport_piece *piece = &request->pieces[i];
    void *base, *local = (void *)(uintptr_t)piece->local_address;
    int rc = check_piece(request, i);
    if (rc == 0)
      rc = cuda_remote_on((struct cuda_remote *)piece->remote, device, &base);
    if (rc != 0)
      return rc;
    void *remote = (char *)base + (piece->remote_address - piece->remote->address);
    bool write = request->op == WEFT_TRANSFER_WRITE;
    copies[i] =
        (struct device_copy){.to = write ? remote : local, .from = write ? local : remote, .size = piece->length};
  }
  return 0;
}

static int prepare_copies(struct cuda_request *own) {
  const struct transport_request *request = own->request;
  struct cuda_worker *worker = own->worker;
  char why[DEVICE_WHY] = "";
  struct device *device;
  own->device = choose_device(worker, &request->pieces[0]);
  int rc = cuda_device_open(worker, own->device, &device);
  struct device_copy *copies = calloc(request->num_pieces, sizeof *copies);
  if (rc == 0 && !copies)
    rc = fail(WEFT_ERR_NOMEM, "no memory for %u copies", request->num_pieces);
  if (rc == 0)
    rc = make_copies(request, own->device, copies);
  if (rc == 0) {
    rc = worker->api->copies_open(device, copies, request->num_pieces, &own->copies, why);
    if (rc != 0)
      device_fail(rc, "copies by a GPU", why);
  }
  free(copies);
  return rc;
}

int cuda_transport_prepare(struct transport_request *request) {
  struct cuda_request *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "no memory for a request");
  own->request = request;
  own->worker = worker_of(request);
  own->peer = (struct cuda_peer *)request->peer;
  own->message = (struct transport_request){.peer = own->peer->shm, .op = WEFT_TRANSFER_WRITE};
  request->own = own;
  own->later = own->worker->prepared;
  if (own->later)
    own->later->sooner = own;
  own->worker->prepared = own;
  int rc = own->worker->shm->transport->prepare(&own->message);
  bool has_message = rc == 0;
  if (rc == 0 && request->num_pieces > 0)
    rc = prepare_copies(own);
  if (rc != 0) {
    if (!has_message)
      own->message.peer = NULL;
    cuda_transport_unprepare(request);
  }
  return rc;
}

// Releases everything that the request keeps of the worker.
static void leave(struct cuda_request *own) {
  struct cuda_worker *worker = own->worker;
  worker->api->copies_close(own->copies);
  if (own->message.peer)
    worker->shm->transport->unprepare(&own->message);
  if (own->sooner)
    own->sooner->later = own->later;
  else
    worker->prepared = own->later;
  if (own->later)
    own->later->sooner = own->sooner;
  own->worker = NULL;
}

void cuda_requests_leave(struct cuda_worker *worker) {
  while (worker->prepared)
    leave(worker->prepared);
}

void cuda_transport_unprepare(struct transport_request *request) {
  struct cuda_request *own = request->own;
  if (own->worker)
    leave(own);
  free(own);
  request->own = NULL;
}

// --- one post ---

static void end(struct cuda_request *own, int rc, const char *why) {
  struct transport_request *request = own->request;
  own->stage = CUDA_IDLE;
  for (uint32_t i = 0; request->status && i < request->num_pieces; i++)
    request->status[i] = rc;
  if (rc == 0)
    for (uint32_t i = 0; i < request->num_pieces; i++)
      request->moved += request->pieces[i].length;
  snprintf(request->why, sizeof request->why, "%.*s", (int)sizeof request->why - 1, why);
  atomic_store_explicit(&request->state, rc, memory_order_release);
  if (request->done)
    request->done(request);
}

// All data is visible at the peer: sends the message. True: the request has ended.
static bool send_message(struct cuda_request *own) {
  const struct transport_request *request = own->request;
  if (own->peer->base.failed != 0) {
    end(own, WEFT_ERR_PEER_LOST, "the connection to the peer was lost");
    return true;
  }
  if (own->canceled) {
    end(own, WEFT_ERR_CANCELED, "cancelled");
    return true;
  }
  if (request->message_size == 0) {
    end(own, 0, "");
    return true;
  }
  own->message.message = request->message;
  own->message.message_size = request->message_size;
  own->stage = CUDA_SENDING;
  int rc = own->worker->shm->transport->post(&own->message);
  if (rc != 0)
    end(own, rc, "the message could not be sent");
  return rc != 0;
}

static bool copying(struct cuda_request *own, uint32_t *steps) {
  char why[DEVICE_WHY] = "";
  bool passed = false;
  int rc = own->worker->api->copies_passed(own->copies, &passed, why);
  if (rc == 0 && !passed)
    return false;
  ++*steps;
  if (rc == 0)
    return send_message(own);
  end(own, rc, why); // none of them runs any more
  return true;
}

static bool sending(struct cuda_request *own, uint32_t *steps) {
  int state = atomic_load_explicit(&own->message.state, memory_order_acquire);
  if (state == TRANSPORT_IN_FLIGHT)
    return false;
  ++*steps;
  end(own, state, own->message.why);
  return true;
}

// Whether the request has ended.
static bool advance(struct cuda_request *own, uint32_t *steps) {
  if (own->stage == CUDA_COPYING && copying(own, steps))
    return true;
  return own->stage == CUDA_SENDING && sending(own, steps);
}

uint32_t cuda_requests_advance(struct cuda_worker *worker) {
  uint32_t steps = 0;
  for (struct cuda_request **link = &worker->first; *link;) {
    struct cuda_request *own = *link;
    // Out of the list first: done() may post it again.
    struct cuda_request *next = own->next;
    *link = next;
    if (!next)
      worker->last = link;
    if (advance(own, &steps))
      continue;
    own->next = *link;
    *link = own;
    if (!own->next)
      worker->last = &own->next;
    link = &own->next;
  }
  return steps;
}

int cuda_transport_post(struct transport_request *request) {
  struct cuda_request *own = request->own;
  struct cuda_worker *worker = own->worker;
  char why[DEVICE_WHY] = "";
  int rc = own->peer->base.failed;
  request->moved = 0;
  request->why[0] = '\0';
  own->canceled = false;
  own->next = NULL;
  if (rc == 0 && own->copies)
    rc = worker->api->copies_run(own->copies, worker->streams[own->device], why);
  if (rc != 0) {
    atomic_store_explicit(&request->state, rc, memory_order_release);
    return device_fail(rc, "copies by a GPU", why[0] ? why : "the connection to the peer was lost");
  }
  atomic_store_explicit(&request->state, TRANSPORT_IN_FLIGHT, memory_order_relaxed);
  own->stage = CUDA_COPYING;
  uint32_t steps = 0;
  if ((!own->copies && send_message(own)) || (own->stage == CUDA_SENDING && sending(own, &steps)))
    return 0;
  *worker->last = own;
  worker->last = &own->next;
  return 0;
}

void cuda_transport_cancel(struct transport_request *request) {
  struct cuda_request *own = request->own;
  if (own->stage == CUDA_IDLE)
    return;
  own->canceled = true;
  if (own->stage == CUDA_SENDING)
    own->worker->shm->transport->cancel(&own->message);
}

void cuda_requests_cancel(struct cuda_worker *worker, const struct cuda_peer *peer) {
  for (struct cuda_request *own = worker->first; own; own = own->next)
    if (!peer || own->peer == peer)
      cuda_transport_cancel(own->request);
}

bool cuda_requests_of(const struct cuda_worker *worker, const struct cuda_peer *peer) {
  for (const struct cuda_request *own = worker->first; own; own = own->next)
    if (!peer || own->peer == peer)
      return true;
  return false;
}
