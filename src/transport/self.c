#include "transport/self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/card.h"
#include "base/fail.h"
#include "base/random.h"

#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

// The worker's id.
static const struct card address_card = {"address of storage", 0x57534131, 2};
// The worker's id, the kind, the region's number.
static const struct card key_card = {"key of storage", 0x57534b31, 2};

void self_link_init(struct self_link *link) {
  link->prev = link->next = link;
}

void self_link_add(struct self_link *head, struct self_link *link) {
  link->prev = head->prev;
  link->next = head;
  head->prev->next = link;
  head->prev = link;
}

void self_link_remove(struct self_link *link) {
  link->prev->next = link->next;
  link->next->prev = link->prev;
  self_link_init(link);
}

// --- settings ---

static const char *value_of(const char *setting, const char *name) {
  size_t length = strlen(name);
  return strncmp(setting, name, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

int self_settings_check(const struct transport_options *options, const char *transport, const char *const *names) {
  for (const char *const *setting = options->settings; setting && *setting; setting++) {
    const char *const *name = names;
    while (*name && !value_of(*setting, *name))
      name++;
    if (!*name) // only the name: the value may be a secret
      return fail(WEFT_ERR_INVALID, "the transport %s has no setting \"%.*s\"", transport, (int)strcspn(*setting, "="),
                  *setting);
  }
  return 0;
}

const char *self_setting(const struct transport_options *options, const char *name) {
  const char *value = NULL;
  for (const char *const *setting = options->settings; setting && *setting; setting++) {
    const char *this_one = value_of(*setting, name);
    value = this_one ? this_one : value;
  }
  return value;
}

int self_setting_number(const struct transport_options *options, const char *name, uint64_t least, uint64_t most,
                        uint64_t *value) {
  const char *text = self_setting(options, name);
  if (!text)
    return 0;
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || number < least || number > most)
    return fail(WEFT_ERR_INVALID, "%s=%s: a number from %llu to %llu is wanted", name, text, (unsigned long long)least,
                (unsigned long long)most);
  *value = number;
  return 0;
}

// --- worker ---

void self_worker_init(struct self_worker *worker, const struct transport *transport,
                      const struct transport_options *options) {
  worker->base.transport = transport;
  worker->base.abilities = transport->abilities;
  worker->base.options = *options;
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  worker->id = random_id();
  self_link_init(&worker->regions);
  self_link_init(&worker->peers);
  self_link_init(&worker->active);
  self_link_init(&worker->ended);
}

static void drop_region(struct self_region *region, void (*drop)(struct self_region *region)) {
  if (self_region_put(region))
    drop(region);
}

static void free_peer(struct self_peer *peer, void (*drop)(struct self_region *region)) {
  while (!self_link_empty(&peer->remotes)) {
    struct self_remote *remote = CONTAINER(peer->remotes.next, struct self_remote, link);
    drop_region(self_remote_free(&remote->base), drop);
  }
  self_link_remove(&peer->link);
  free(peer);
}

void self_worker_clear(struct self_worker *worker, void (*drop)(struct self_region *region)) {
  while (!self_link_empty(&worker->peers))
    free_peer(CONTAINER(worker->peers.next, struct self_peer, link), drop);
  while (!self_link_empty(&worker->regions))
    drop_region(CONTAINER(worker->regions.next, struct self_region, link), drop);
}

int self_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct self_worker *worker = (struct self_worker *)base;
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put_number(&writer, worker->id, 8);
  return card_end(&address_card, &writer, size);
}

int self_connect(struct transport_worker *base, const void *address, size_t size, struct transport_peer **peer) {
  struct self_worker *worker = (struct self_worker *)base;
  struct wire_reader reader;
  int rc = card_read(&address_card, address, size, &reader);
  if (rc != 0)
    return rc;
  if (wire_take_number(&reader, 8) != worker->id)
    return fail(WEFT_ERR_UNREACHABLE, "the transport %s reaches storage of its own worker only, no other one",
                base->transport->name);
  struct self_peer *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a peer");
  own->base.worker = base;
  self_link_init(&own->remotes);
  self_link_add(&worker->peers, &own->link);
  *peer = &own->base;
  return 0;
}

void self_region_add(struct self_worker *worker, const struct transport_memory *memory, struct self_region *region) {
  region->base.worker = &worker->base;
  region->base.memory = *memory;
  region->number = ++worker->num_regions;
  region->refs = 1;
  self_link_add(&worker->regions, &region->link);
}

bool self_region_put(struct self_region *region) {
  if (--region->refs > 0)
    return false;
  self_link_remove(&region->link);
  return true;
}

int self_pack(struct transport_region *base, void *bytes, size_t *size) {
  struct self_region *region = (struct self_region *)base;
  struct self_worker *worker = (struct self_worker *)base->worker;
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  wire_put_number(&writer, worker->id, 8);
  wire_put_number(&writer, base->memory.kind, 4);
  wire_put_number(&writer, region->number, 8);
  return card_end(&key_card, &writer, size);
}

static struct self_region *find_region(struct self_worker *worker, uint64_t number) {
  for (struct self_link *link = worker->regions.next; link != &worker->regions; link = link->next) {
    struct self_region *region = CONTAINER(link, struct self_region, link);
    if (region->number == number && !region->gone)
      return region;
  }
  return NULL;
}

int self_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **remote) {
  struct self_peer *peer = (struct self_peer *)base;
  struct self_worker *worker = (struct self_worker *)base->worker;
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  uint64_t id = wire_take_number(&reader, 8), kind = wire_take_number(&reader, 4),
           number = wire_take_number(&reader, 8);
  if (kind >= WEFT_MEMORY_KINDS || !(worker->base.abilities.remote_kinds & 1u << kind))
    return fail(WEFT_ERR_UNREACHABLE, "the transport %s reaches no memory of that kind", worker->base.transport->name);
  struct self_region *region = id == worker->id ? find_region(worker, number) : NULL;
  if (!region)
    return fail(WEFT_ERR_UNREACHABLE, "that region is not this worker's, or not any more");
  struct self_remote *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a region");
  own->base = (struct transport_remote){base, region->base.memory.kind, 0, region->base.memory.length};
  own->region = region;
  region->refs++;
  self_link_add(&peer->remotes, &own->link);
  *remote = &own->base;
  return 0;
}

struct self_region *self_remote_free(struct transport_remote *base) {
  struct self_remote *remote = (struct self_remote *)base;
  struct self_region *region = remote->region;
  self_link_remove(&remote->link);
  free(remote);
  return region;
}

// --- requests ---

static int check_local(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *memory = &piece->local->memory;
  uint64_t start = (uint64_t)(uintptr_t)memory->address;
  if (memory->kind != WEFT_MEMORY_HOST)
    return fail(WEFT_ERR_INVALID, "piece %u: its local side is not host memory", i);
  if (piece->local_address < start || piece->length > memory->length ||
      piece->local_address - start > memory->length - piece->length)
    return fail(WEFT_ERR_LIMIT, "piece %u: its local side is outside its region", i);
  if (request->op == WEFT_READ && memory->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u: its local side was registered as read-only", i);
  return 0;
}

static int check_remote(const struct transport_request *request, uint32_t i) {
  const struct transport_piece *piece = &request->pieces[i];
  const struct transport_memory *memory = &((struct self_remote *)piece->remote)->region->base.memory;
  uint64_t most = memory->length ? memory->length : INT64_MAX;
  if (piece->remote->peer != request->peer)
    return fail(WEFT_ERR_INVALID, "piece %u: its remote side belongs to another peer", i);
  if (piece->length > most || piece->remote_address > most - piece->length)
    return fail(WEFT_ERR_LIMIT, "piece %u: bytes %llu to %llu of %s are asked for, which may be used up to %llu", i,
                (unsigned long long)piece->remote_address, (unsigned long long)(piece->remote_address + piece->length),
                memory->path ? memory->path : "a file", (unsigned long long)most);
  if (request->op == WEFT_WRITE && memory->read_only)
    return fail(WEFT_ERR_INVALID, "piece %u: %s was registered as read-only", i,
                memory->path ? memory->path : "its file");
  return 0;
}

int self_request_init(struct transport_request *request, struct self_request *own) {
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
  self_link_init(&own->link);
  atomic_store_explicit(&request->state, 0, memory_order_release);
  return 0;
}

void self_request_free(struct self_request *own) {
  free(own->left);
}

int self_request_begin(struct transport_request *request) {
  struct self_request *own = request->own;
  struct self_worker *worker = (struct self_worker *)request->peer->worker;
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
  own->peer = (struct self_peer *)request->peer;
  own->peer->num_active++;
  worker->num_active++;
  self_link_add(&worker->active, &own->link);
  return 0;
}

void self_request_moved(struct self_request *own, uint32_t piece, uint64_t bytes) {
  own->left[piece] -= bytes;
  own->request->moved += bytes;
}

void self_request_failed(struct self_request *own, uint32_t piece, int err) {
  struct transport_request *request = own->request;
  if (request->status && request->status[piece] == 0)
    request->status[piece] = err;
  if (own->err)
    return;
  own->err = err;
  snprintf(request->why, sizeof request->why, "%s", weft_last_error());
}

void self_request_end(struct self_request *own) {
  struct transport_request *request = own->request;
  struct self_worker *worker = (struct self_worker *)own->peer->base.worker;
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
    snprintf(request->why, sizeof request->why, "cancelled");
  }
  self_link_remove(&own->link);
  self_link_add(&worker->ended, &own->link);
}

static void tell(struct self_worker *worker, struct self_request *own) {
  struct transport_request *request = own->request;
  const struct transport_options *options = &worker->base.options;
  self_link_remove(&own->link);
  own->peer->num_active--;
  worker->num_active--;
  if (own->err == 0 && request->message_size > 0 && options->on_message)
    options->on_message(options->arg, request->message, request->message_size);
  // Once the state is there, the owner may free the request, unless it asked to be called.
  void (*done)(struct transport_request *) = request->done;
  atomic_store_explicit(&request->state, own->err, memory_order_release);
  if (done)
    done(request);
}

uint32_t self_worker_tell(struct self_worker *worker, void (*drop)(struct self_region *region)) {
  uint32_t count = 0;
  for (const struct self_link *link = worker->ended.next; link != &worker->ended; link = link->next)
    count++;
  for (uint32_t i = 0; i < count; i++) // what ends while these are told has to wait for the next call
    tell(worker, CONTAINER(worker->ended.next, struct self_request, link));
  for (struct self_link *link = worker->peers.next, *next; link != &worker->peers; link = next) {
    next = link->next;
    struct self_peer *peer = CONTAINER(link, struct self_peer, link);
    if (peer->closing && peer->num_active == 0)
      free_peer(peer, drop);
  }
  return count;
}

void self_disconnect(struct transport_peer *base, void (*cancel)(struct transport_request *request),
                     void (*drop)(struct self_region *region)) {
  struct self_peer *peer = (struct self_peer *)base;
  struct self_worker *worker = (struct self_worker *)base->worker;
  peer->closing = true;
  peer->base.failed = WEFT_ERR_CLOSED;
  for (struct self_link *link = worker->active.next, *next; link != &worker->active; link = next) {
    next = link->next;
    struct self_request *own = CONTAINER(link, struct self_request, link);
    if (own->peer == peer)
      cancel(own->request);
  }
  if (peer->num_active == 0)
    free_peer(peer, drop);
}
