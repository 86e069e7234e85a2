// Peers, addresses and remotes of transports to storage, whose only peer is the worker itself.
#include "transport/storage/storage.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/wire/card.h"

// The worker's id.
static const struct card address_card = {"address of storage", 0x57534131, 2};
// The worker's id, the kind, the region's number.
static const struct card key_card = {"key of storage", 0x57534b31, 2};

void storage_worker_init(struct storage_worker *worker, const struct transport *transport,
                         const struct transport_options *options) {
  worker->base.transport = transport;
  worker->base.abilities = transport->abilities;
  worker->base.options = *options;
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  worker->base.options.owner = NULL;
  worker->id = random_id();
  link_init(&worker->regions);
  link_init(&worker->peers);
  link_init(&worker->active);
  link_init(&worker->ended);
}

static void drop_region(struct storage_region *region, void (*drop)(struct storage_region *region)) {
  if (storage_region_put(region))
    drop(region);
}

static void free_peer(struct storage_peer *peer, void (*drop)(struct storage_region *region)) {
  while (!link_empty(&peer->remotes)) {
    struct storage_remote *remote = LINK_OF(peer->remotes.next, struct storage_remote, link);
    drop_region(storage_remote_free(&remote->base), drop);
  }
  link_remove(&peer->link);
  free(peer);
}

void storage_worker_clear(struct storage_worker *worker, void (*drop)(struct storage_region *region)) {
  while (!link_empty(&worker->peers))
    free_peer(LINK_OF(worker->peers.next, struct storage_peer, link), drop);
  while (!link_empty(&worker->regions))
    drop_region(LINK_OF(worker->regions.next, struct storage_region, link), drop);
}

int storage_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct storage_worker *worker = (struct storage_worker *)base;
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put_number(&writer, worker->id, 8);
  return card_end(&address_card, &writer, size);
}

int storage_connect(struct transport_worker *base, const void *address, size_t size, const char *owner,
                    struct transport_peer **peer) {
  (void)owner; // the only worker that can be reached is the caller's own
  struct storage_worker *worker = (struct storage_worker *)base;
  struct wire_reader reader;
  int rc = card_read(&address_card, address, size, &reader);
  if (rc != 0)
    return rc;
  if (wire_take_number(&reader, 8) != worker->id)
    return fail(WEFT_ERR_UNREACHABLE, "the transport %s reaches storage of its own worker only", base->transport->name);
  struct storage_peer *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a peer");
  own->base.worker = base;
  link_init(&own->remotes);
  link_add(&worker->peers, &own->link);
  *peer = &own->base;
  return 0;
}

void storage_region_add(struct storage_worker *worker, const struct transport_memory *memory,
                        struct storage_region *region) {
  region->base.worker = &worker->base;
  region->base.memory = *memory;
  region->number = ++worker->num_regions;
  region->refs = 1;
  link_add(&worker->regions, &region->link);
}

bool storage_region_put(struct storage_region *region) {
  if (--region->refs > 0)
    return false;
  link_remove(&region->link);
  return true;
}

int storage_pack(struct transport_region *base, void *bytes, size_t *size) {
  struct storage_region *region = (struct storage_region *)base;
  struct storage_worker *worker = (struct storage_worker *)base->worker;
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  wire_put_number(&writer, worker->id, 8);
  wire_put_number(&writer, base->memory.kind, 4);
  wire_put_number(&writer, region->number, 8);
  return card_end(&key_card, &writer, size);
}

static struct storage_region *find_region(struct storage_worker *worker, uint64_t number) {
  for (struct link *link = worker->regions.next; link != &worker->regions; link = link->next) {
    struct storage_region *region = LINK_OF(link, struct storage_region, link);
    if (region->number == number && !region->gone)
      return region;
  }
  return NULL;
}

int storage_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **remote) {
  struct storage_peer *peer = (struct storage_peer *)base;
  struct storage_worker *worker = (struct storage_worker *)base->worker;
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  uint64_t id = wire_take_number(&reader, 8), kind = wire_take_number(&reader, 4),
           number = wire_take_number(&reader, 8);
  if (kind >= TRANSPORT_KINDS || !(worker->base.abilities.remote_kinds & 1u << kind))
    return fail(WEFT_ERR_UNREACHABLE, "the transport %s reaches no memory of that kind", worker->base.transport->name);
  struct storage_region *region = id == worker->id ? find_region(worker, number) : NULL;
  if (!region)
    return fail(WEFT_ERR_UNREACHABLE, "that region is not registered with this worker");
  struct storage_remote *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a region");
  own->base =
      (struct transport_remote){.peer = base, .kind = region->base.memory.kind, .length = region->base.memory.length};
  own->region = region;
  region->refs++;
  link_add(&peer->remotes, &own->link);
  *remote = &own->base;
  return 0;
}

struct storage_region *storage_remote_free(struct transport_remote *base) {
  struct storage_remote *remote = (struct storage_remote *)base;
  struct storage_region *region = remote->region;
  link_remove(&remote->link);
  free(remote);
  return region;
}

uint32_t storage_worker_complete(struct storage_worker *worker, void (*drop)(struct storage_region *region)) {
  uint32_t count = 0;
  for (const struct link *link = worker->ended.next; link != &worker->ended; link = link->next)
    count++;
  for (uint32_t i = 0; i < count; i++) // requests that end in their callbacks wait for the next call
    storage_request_complete(LINK_OF(worker->ended.next, struct storage_request, link));
  for (struct link *link = worker->peers.next, *next; link != &worker->peers; link = next) {
    next = link->next;
    struct storage_peer *peer = LINK_OF(link, struct storage_peer, link);
    if (peer->closing && peer->num_active == 0)
      free_peer(peer, drop);
  }
  return count;
}

void storage_disconnect(struct transport_peer *base, void (*cancel)(struct transport_request *request),
                        void (*drop)(struct storage_region *region)) {
  struct storage_peer *peer = (struct storage_peer *)base;
  struct storage_worker *worker = (struct storage_worker *)base->worker;
  peer->closing = true;
  peer->base.failed = WEFT_ERR_CLOSED;
  for (struct link *link = worker->active.next, *next; link != &worker->active; link = next) {
    next = link->next;
    struct storage_request *own = LINK_OF(link, struct storage_request, link);
    if (own->peer == peer)
      cancel(own->request);
  }
  if (peer->num_active == 0)
    free_peer(peer, drop);
}
