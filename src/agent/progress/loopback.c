// The transport of an agent to itself: the processor copies, small requests in post(), large ones in progress(). Every
// agent has it, so that loopback between host memory needs no other transport, and a notification to oneself is sent
// like all others.
#include "agent/progress/loopback.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/link.h"

enum {
  INLINE = 256 << 10, // bytes that post() copies itself
  STRETCH = 1 << 20,  // that progress() copies at a time
};

// A request, from prepare() to unprepare(), and how far it was copied.
struct copy {
  struct link copies; // in the worker's list of requests that progress() copies
  struct transport_request *request;
  bool large;
  uint32_t piece;
  uint64_t offset; // in it
};

// A region, peer or remote that a worker has made, in its list: closing the worker frees the remaining ones.
struct object {
  struct object *next, **back;
  union {
    struct transport_region region;
    struct transport_peer peer;
    struct transport_remote remote;
  } as;
};

struct self_worker {
  struct transport_worker worker;
  struct object *objects;
  struct link copies;
};

static struct object *make_object(struct transport_worker *worker) {
  struct self_worker *self = (struct self_worker *)worker;
  struct object *object = calloc(1, sizeof *object);
  if (!object)
    return NULL;
  object->next = self->objects;
  object->back = &self->objects;
  if (object->next)
    object->next->back = &object->next;
  self->objects = object;
  return object;
}

static void free_object(void *as) {
  struct object *object = (struct object *)((char *)as - offsetof(struct object, as));
  *object->back = object->next;
  if (object->next)
    object->next->back = object->back;
  free(object);
}

static int self_probe(char *why, size_t cap) {
  (void)why, (void)cap;
  return 0;
}

static int self_open(const struct transport_options *options, struct transport_worker **worker) {
  struct self_worker *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for transfers within the agent");
  made->worker = (struct transport_worker){
      .transport = &agent_transport_self, .abilities = agent_transport_self.abilities, .options = *options};
  link_init(&made->copies);
  *worker = &made->worker;
  return 0;
}

// Copies on, so many bytes at most. True: all is there.
static bool copy_on(struct copy *copy, uint64_t most) {
  struct transport_request *request = copy->request;
  while (copy->piece < request->num_pieces && most > 0) {
    const struct transport_piece *piece = &request->pieces[copy->piece];
    uint64_t left = piece->length - copy->offset, size = left < most ? left : most;
    void *here = (void *)(uintptr_t)(piece->local_address + copy->offset);
    void *there = (void *)(uintptr_t)(piece->remote_address + copy->offset);
    bool write = request->op == WEFT_TRANSFER_WRITE;
    memmove(write ? there : here, write ? here : there, size);
    request->moved += size;
    copy->offset += size;
    most -= size;
    if (size < left)
      break;
    if (request->status)
      request->status[copy->piece] = 0;
    copy->piece++;
    copy->offset = 0;
  }
  return copy->piece == request->num_pieces;
}

// The last touch of the request.
static void finish(struct transport_request *request, int state) {
  const struct transport_options *user = &request->peer->worker->options;
  void (*done)(struct transport_request *) = request->done;
  if (state == 0 && request->message_size > 0 && user->on_message)
    user->on_message(user->arg, request->message, request->message_size);
  atomic_store_explicit(&request->state, state, memory_order_release);
  if (done)
    done(request);
}

static void cancel(struct copy *copy) {
  struct transport_request *request = copy->request;
  link_remove(&copy->copies);
  for (uint32_t i = copy->piece; request->status && i < request->num_pieces; i++)
    request->status[i] = WEFT_ERR_CANCELED;
  snprintf(request->why, sizeof request->why, "cancelled");
  finish(request, WEFT_ERR_CANCELED);
}

// Of that peer; NULL: of all.
static void cancel_all(struct self_worker *self, const struct transport_peer *peer) {
  for (struct link *link = self->copies.next, *next; link != &self->copies; link = next) {
    next = link->next;
    struct copy *copy = LINK_OF(link, struct copy, copies);
    if (!peer || copy->request->peer == peer)
      cancel(copy);
  }
}

static void self_close(struct transport_worker *worker) {
  struct self_worker *self = (struct self_worker *)worker;
  cancel_all(self, NULL);
  while (self->objects)
    free_object(&self->objects->as);
  free(self);
}

static int self_address(struct transport_worker *worker, void *bytes, size_t *size) {
  (void)worker, (void)bytes;
  *size = 0;
  return 0;
}

static int self_reg(struct transport_worker *worker, const struct transport_memory *memory,
                    struct transport_region **region) {
  struct object *made = make_object(worker);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  made->as.region = (struct transport_region){.worker = worker, .memory = *memory};
  *region = &made->as.region;
  return 0;
}

static void self_unreg(struct transport_region *region) {
  free_object(region);
}

static int self_pack(struct transport_region *region, void *bytes, size_t *size) {
  if (*size < sizeof region)
    return fail(WEFT_ERR_LIMIT, "%zu bytes are too few for a key", *size);
  memcpy(bytes, &region, sizeof region);
  *size = sizeof region;
  return 0;
}

static int self_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                        struct transport_peer **peer) {
  (void)address, (void)size, (void)owner;
  struct object *made = make_object(worker);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  made->as.peer.worker = worker;
  *peer = &made->as.peer;
  return 0;
}

static void self_disconnect(struct transport_peer *peer) {
  cancel_all((struct self_worker *)peer->worker, peer);
  free_object(peer);
}

static int self_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote) {
  struct transport_region *region;
  if (size != sizeof region)
    return fail(WEFT_ERR_PROTOCOL, "a key of %zu bytes is not one of this process", size);
  memcpy(&region, bytes, sizeof region);
  struct object *made = make_object(peer->worker);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  made->as.remote = (struct transport_remote){.peer = peer,
                                              .kind = region->memory.kind,
                                              .address = (uintptr_t)region->memory.address,
                                              .length = region->memory.length};
  *remote = &made->as.remote;
  return 0;
}

static void self_release(struct transport_remote *remote) {
  free_object(remote);
}

static void *self_map(struct transport_remote *remote) {
  return (void *)(uintptr_t)remote->address;
}

static int self_prepare(struct transport_request *request) {
  struct copy *copy = calloc(1, sizeof *copy);
  uint64_t bytes = 0;
  if (!copy)
    return fail(WEFT_ERR_NOMEM, "no memory for a request");
  for (uint32_t i = 0; i < request->num_pieces && bytes <= INLINE; i++)
    bytes += request->pieces[i].length <= INLINE ? request->pieces[i].length : INLINE + 1;
  link_init(&copy->copies);
  copy->request = request;
  copy->large = bytes > INLINE;
  request->own = copy;
  return 0;
}

static void self_unprepare(struct transport_request *request) {
  free(request->own);
  request->own = NULL;
}

static int self_post(struct transport_request *request) {
  struct copy *copy = request->own;
  copy->piece = 0;
  copy->offset = 0;
  request->moved = 0;
  request->why[0] = '\0';
  if (copy->large) {
    atomic_store_explicit(&request->state, TRANSPORT_IN_FLIGHT, memory_order_relaxed);
    link_add(&((struct self_worker *)request->peer->worker)->copies, &copy->copies);
  } else {
    copy_on(copy, INLINE);
    finish(request, 0);
  }
  return 0;
}

static void self_cancel(struct transport_request *request) {
  if (atomic_load_explicit(&request->state, memory_order_relaxed) == TRANSPORT_IN_FLIGHT)
    cancel(request->own);
}

static uint32_t self_progress(struct transport_worker *worker) {
  struct self_worker *self = (struct self_worker *)worker;
  if (link_empty(&self->copies))
    return 0;
  struct copy *copy = LINK_OF(self->copies.next, struct copy, copies);
  link_remove(&copy->copies);
  if (copy_on(copy, STRETCH))
    finish(copy->request, 0);
  else
    link_add(&self->copies, &copy->copies); // behind the others
  return 1;
}

static int self_fd(struct transport_worker *worker) {
  (void)worker;
  return -1;
}

// A copy by one core, roughly.
static void self_cost(struct transport_worker *worker, const struct transport_peer *peer, struct transport_cost *cost) {
  (void)worker, (void)peer;
  *cost = (struct transport_cost){.latency_ns = 20, .piece_ns = 5, .bytes_per_s = 10000000000u};
}

const struct transport agent_transport_self = {
    .name = "self",
    .what = "the processor, within one agent",
    .abilities = {.local_kinds = 1 << WEFT_MEMORY_HOST,
                  .remote_kinds = 1 << WEFT_MEMORY_HOST,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_SELF_ONLY | TRANSPORT_MAPS},
    .probe = self_probe,
    .open = self_open,
    .close = self_close,
    .address = self_address,
    .reg = self_reg,
    .unreg = self_unreg,
    .pack = self_pack,
    .connect = self_connect,
    .disconnect = self_disconnect,
    .import = self_import,
    .release = self_release,
    .map = self_map,
    .prepare = self_prepare,
    .unprepare = self_unprepare,
    .post = self_post,
    .cancel = self_cancel,
    .progress = self_progress,
    .fd = self_fd,
    .cost = self_cost,
};
