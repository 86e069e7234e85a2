// The way of an agent to itself: the processor copies. Always there, so that loopback between host memory needs no
// other transport, and a notification to oneself goes as all others do.
#include "agent/progress/loopback.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

// What a worker has made, so that closing it frees what is left.
struct thing {
  struct thing *next, **back;
  union {
    struct transport_region region;
    struct transport_peer peer;
    struct transport_remote remote;
  } as;
};

struct self {
  struct transport_worker worker;
  struct thing *things;
};

static struct thing *new_thing(struct transport_worker *worker) {
  struct self *self = (struct self *)worker;
  struct thing *thing = calloc(1, sizeof *thing);
  if (!thing)
    return NULL;
  thing->next = self->things;
  thing->back = &self->things;
  if (thing->next)
    thing->next->back = &thing->next;
  self->things = thing;
  return thing;
}

static void free_thing(void *as) {
  struct thing *thing = (struct thing *)((char *)as - offsetof(struct thing, as));
  *thing->back = thing->next;
  if (thing->next)
    thing->next->back = thing->back;
  free(thing);
}

static int self_probe(char *why, size_t cap) {
  (void)why, (void)cap;
  return 0;
}

static int self_open(const struct transport_options *options, struct transport_worker **worker) {
  struct self *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for the way to oneself");
  made->worker = (struct transport_worker){
      .transport = &agent_transport_self, .abilities = agent_transport_self.abilities, .options = *options};
  *worker = &made->worker;
  return 0;
}

static void self_close(struct transport_worker *worker) {
  struct self *self = (struct self *)worker;
  while (self->things)
    free_thing(&self->things->as);
  free(self);
}

static int self_address(struct transport_worker *worker, void *bytes, size_t *size) {
  (void)worker, (void)bytes;
  *size = 0;
  return 0;
}

static int self_reg(struct transport_worker *worker, const struct transport_memory *memory,
                    struct transport_region **region) {
  struct thing *made = new_thing(worker);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  made->as.region = (struct transport_region){.worker = worker, .memory = *memory};
  *region = &made->as.region;
  return 0;
}

static void self_unreg(struct transport_region *region) {
  free_thing(region);
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
  struct thing *made = new_thing(worker);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  made->as.peer.worker = worker;
  *peer = &made->as.peer;
  return 0;
}

static void self_disconnect(struct transport_peer *peer) {
  free_thing(peer);
}

static int self_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote) {
  struct transport_region *region;
  if (size != sizeof region)
    return fail(WEFT_ERR_PROTOCOL, "a key of %zu bytes is not one of this process", size);
  memcpy(&region, bytes, sizeof region);
  struct thing *made = new_thing(peer->worker);
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
  free_thing(remote);
}

static void *self_map(struct transport_remote *remote) {
  return (void *)(uintptr_t)remote->address;
}

static int self_prepare(struct transport_request *request) {
  (void)request;
  return 0;
}

static void self_unprepare(struct transport_request *request) {
  (void)request;
}

static int self_post(struct transport_request *request) {
  request->moved = 0;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct transport_piece *piece = &request->pieces[i];
    void *here = (void *)(uintptr_t)piece->local_address, *there = (void *)(uintptr_t)piece->remote_address;
    bool write = request->op == WEFT_TRANSFER_WRITE;
    memmove(write ? there : here, write ? here : there, piece->length);
    request->moved += piece->length;
    if (request->status)
      request->status[i] = 0;
  }
  request->why[0] = '\0';
  const struct transport_options *user = &request->peer->worker->options;
  if (request->message_size > 0 && user->on_message)
    user->on_message(user->arg, request->message, request->message_size);
  atomic_store_explicit(&request->state, 0, memory_order_release);
  if (request->done)
    request->done(request);
  return 0;
}

static void self_cancel(struct transport_request *request) {
  (void)request; // it has ended
}

static uint32_t self_progress(struct transport_worker *worker) {
  (void)worker;
  return 0;
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
