// Workers, regions, peers and remotes: each has one of the inner transport.
#include "transport/fault/worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"

static void *make(size_t size) {
  void *made = calloc(1, size);
  if (!made)
    fail(WEFT_ERR_NOMEM, "no memory for a transport with faults");
  return made;
}

// --- what the inner transport says ---

static void on_message(void *arg, const void *bytes, size_t size) {
  const struct fault_worker *worker = arg;
  if (worker->base.options.on_message)
    worker->base.options.on_message(worker->base.options.arg, bytes, size);
}

static void on_peer(void *arg, struct transport_peer *inner, int err, const char *why) {
  const struct fault_worker *worker = arg;
  struct fault_peer *peer = inner->arg;
  if (!peer || peer->closing || peer->told)
    return;
  peer->told = true;
  peer->base.failed = err;
  if (worker->base.options.on_peer)
    worker->base.options.on_peer(worker->base.options.arg, &peer->base, err, why);
}

// --- workers ---

int fault_open(const struct fault_setup *setup, const struct transport_options *options,
               struct transport_worker **made) {
  struct fault_worker *worker = make(sizeof *worker);
  if (!worker)
    return WEFT_ERR_NOMEM;
  link_init(&worker->regions);
  link_init(&worker->peers);
  link_init(&worker->held);
  worker->inner_table = setup->inner;
  worker->script = &setup->script;
  worker->random = setup->seed;
  worker->base.transport = &setup->table;
  worker->base.options = *options;
  struct transport_options inner = *options;
  inner.on_message = on_message;
  inner.on_peer = on_peer;
  inner.arg = worker;
  int rc = setup->inner->open(&inner, &worker->inner);
  if (rc != 0) {
    free(worker);
    return rc;
  }
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  worker->base.options.owner = NULL;
  worker->base.abilities = worker->inner->abilities;
  worker->base.abilities.flags &= ~(uint32_t)TRANSPORT_CONCURRENT_POST;
  *made = &worker->base;
  return 0;
}

void fault_peer_free(struct fault_peer *peer) {
  while (peer->remotes.next != &peer->remotes) {
    struct fault_remote *remote = LINK_OF(peer->remotes.next, struct fault_remote, link);
    link_remove(&remote->link);
    free(remote);
  }
  link_remove(&peer->link);
  free(peer);
}

static void close_worker(struct transport_worker *base) {
  if (!base)
    return;
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->inner_table->close(worker->inner); // ends what is under way there
  fault_end_held(worker, NULL, WEFT_ERR_CANCELED, "the transport closes");
  while (worker->peers.next != &worker->peers)
    fault_peer_free(LINK_OF(worker->peers.next, struct fault_peer, link));
  while (worker->regions.next != &worker->regions) {
    struct fault_region *region = LINK_OF(worker->regions.next, struct fault_region, link);
    link_remove(&region->link);
    free(region);
  }
  free(worker);
}

static int address(struct transport_worker *base, void *bytes, size_t *size) {
  struct fault_worker *worker = (struct fault_worker *)base;
  return worker->inner_table->address(worker->inner, bytes, size);
}

static uint32_t progress(struct transport_worker *base) {
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->turn++;
  uint32_t count = worker->inner_table->progress(worker->inner);
  return count + fault_release_due(worker) + fault_tell_deaths(worker);
}

static int get_fd(struct transport_worker *base) {
  struct fault_worker *worker = (struct fault_worker *)base;
  return worker->inner_table->fd ? worker->inner_table->fd(worker->inner) : -1;
}

static int arm(struct transport_worker *base) {
  struct fault_worker *worker = (struct fault_worker *)base;
  for (struct link *link = worker->held.next; link != &worker->held; link = link->next)
    if (LINK_OF(link, struct fault_op, link)->hold != HOLD_STUCK)
      return WEFT_ERR_BUSY;
  for (struct link *link = worker->peers.next; link != &worker->peers; link = link->next)
    if (LINK_OF(link, struct fault_peer, link)->died && !LINK_OF(link, struct fault_peer, link)->told)
      return WEFT_ERR_BUSY;
  return worker->inner_table->arm ? worker->inner_table->arm(worker->inner) : 0;
}

static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *is) {
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->inner_table->cost(worker->inner, peer ? ((const struct fault_peer *)peer)->inner : NULL, is);
}

// --- regions ---

static int reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **made) {
  struct fault_worker *worker = (struct fault_worker *)base;
  struct fault_region *region = make(sizeof *region);
  if (!region)
    return WEFT_ERR_NOMEM;
  int rc = worker->inner_table->reg(worker->inner, memory, &region->inner);
  if (rc != 0) {
    free(region);
    return rc;
  }
  region->base.worker = base;
  region->base.memory = *memory;
  link_add(&worker->regions, &region->link);
  *made = &region->base;
  return 0;
}

static void unreg(struct transport_region *base) {
  struct fault_region *region = (struct fault_region *)base;
  ((struct fault_worker *)base->worker)->inner_table->unreg(region->inner);
  link_remove(&region->link);
  free(region);
}

static int pack(struct transport_region *base, void *bytes, size_t *size) {
  return ((struct fault_worker *)base->worker)->inner_table->pack(((struct fault_region *)base)->inner, bytes, size);
}

// --- peers ---

static int connect_peer(struct transport_worker *base, const void *bytes, size_t size, const char *owner,
                        struct transport_peer **made) {
  struct fault_worker *worker = (struct fault_worker *)base;
  struct fault_peer *peer = make(sizeof *peer);
  if (!peer)
    return WEFT_ERR_NOMEM;
  int rc = worker->inner_table->connect(worker->inner, bytes, size, owner, &peer->inner);
  if (rc != 0) {
    free(peer);
    return rc;
  }
  peer->inner->arg = peer;
  peer->base.worker = base;
  link_init(&peer->remotes);
  link_add(&worker->peers, &peer->link);
  *made = &peer->base;
  return 0;
}

static void disconnect(struct transport_peer *base) {
  struct fault_peer *peer = (struct fault_peer *)base;
  struct fault_worker *worker = (struct fault_worker *)base->worker;
  peer->closing = true;
  peer->flights++; // nobody frees it meanwhile
  worker->inner_table->disconnect(peer->inner);
  fault_end_held(worker, peer, WEFT_ERR_CANCELED, "disconnected");
  if (--peer->flights == 0)
    fault_peer_free(peer);
}

static void fence(struct transport_peer *base) {
  ((struct fault_worker *)base->worker)->inner_table->fence(((struct fault_peer *)base)->inner);
}

static int import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  struct fault_peer *peer = (struct fault_peer *)base;
  struct fault_remote *remote = make(sizeof *remote);
  if (!remote)
    return WEFT_ERR_NOMEM;
  int rc = ((struct fault_worker *)base->worker)->inner_table->import(peer->inner, bytes, size, &remote->inner);
  if (rc != 0) {
    free(remote);
    return rc;
  }
  remote->base = *remote->inner;
  remote->base.peer = base;
  link_add(&peer->remotes, &remote->link);
  *made = &remote->base;
  return 0;
}

static void release(struct transport_remote *base) {
  struct fault_remote *remote = (struct fault_remote *)base;
  ((struct fault_worker *)base->peer->worker)->inner_table->release(remote->inner);
  link_remove(&remote->link);
  free(remote);
}

static void *map(struct transport_remote *base) {
  const struct transport *inner = ((struct fault_worker *)base->peer->worker)->inner_table;
  return inner->map ? inner->map(((struct fault_remote *)base)->inner) : NULL;
}

void fault_table(struct fault_setup *setup) {
  setup->table = (struct transport){.what = "another transport, with faults on purpose",
                                    .abilities = setup->inner->abilities,
                                    .close = close_worker,
                                    .address = address,
                                    .reg = reg,
                                    .unreg = unreg,
                                    .pack = pack,
                                    .connect = connect_peer,
                                    .disconnect = disconnect,
                                    .fence = setup->inner->fence ? fence : NULL,
                                    .import = import,
                                    .release = release,
                                    .map = map,
                                    .prepare = fault_prepare,
                                    .unprepare = fault_unprepare,
                                    .post = fault_post,
                                    .cancel = fault_cancel,
                                    .progress = progress,
                                    .fd = get_fd,
                                    .arm = arm,
                                    .cost = cost};
  setup->table.abilities.flags &= ~(uint32_t)TRANSPORT_CONCURRENT_POST;
}
