// Workers of the transport fault, each with a worker of the inner transport.
#include "transport/fault/worker.h"

#include <stdlib.h>

#include "base/fail.h"

// --- callbacks of the inner transport ---

static void on_message(void *arg, const void *bytes, size_t size) {
  const struct fault_worker *worker = arg;
  if (worker->base.options.on_message)
    worker->base.options.on_message(worker->base.options.arg, bytes, size);
}

static void on_peer(void *arg, struct transport_peer *inner, int err, const char *why) {
  const struct fault_worker *worker = arg;
  struct fault_peer *peer = inner->arg;
  if (!peer || peer->closing || peer->reported)
    return;
  peer->reported = true;
  peer->base.failed = err;
  if (worker->base.options.on_peer)
    worker->base.options.on_peer(worker->base.options.arg, &peer->base, err, why);
}

// --- workers ---

int fault_open(const struct fault_setup *setup, const struct transport_options *options,
               struct transport_worker **made) {
  struct fault_worker *worker = fault_make(sizeof *worker);
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

static void close_worker(struct transport_worker *base) {
  if (!base)
    return;
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->inner_table->close(worker->inner); // ends the inner requests under way
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
  worker->ticks++;
  uint32_t count = worker->inner_table->progress(worker->inner);
  return count + fault_release_due(worker) + fault_report_deaths(worker);
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
    if (LINK_OF(link, struct fault_peer, link)->died && !LINK_OF(link, struct fault_peer, link)->reported)
      return WEFT_ERR_BUSY;
  return worker->inner_table->arm ? worker->inner_table->arm(worker->inner) : 0;
}

static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *is) {
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->inner_table->cost(worker->inner, peer ? ((const struct fault_peer *)peer)->inner : NULL, is);
}

static void uses(struct transport_worker *base, const struct transport_peer *peer, char *text, size_t cap) {
  struct fault_worker *worker = (struct fault_worker *)base;
  worker->inner_table->uses(worker->inner, ((const struct fault_peer *)peer)->inner, text, cap);
}

void fault_table(struct fault_setup *setup) {
  setup->table = (struct transport){.what = "another transport, with faults on purpose",
                                    .abilities = setup->inner->abilities,
                                    .close = close_worker,
                                    .address = address,
                                    .reg = fault_reg,
                                    .unreg = fault_unreg,
                                    .pack = fault_pack,
                                    .connect = fault_connect,
                                    .disconnect = fault_disconnect,
                                    .fence = setup->inner->fence ? fault_fence : NULL,
                                    .import = fault_import,
                                    .release = fault_release,
                                    .map = fault_map,
                                    .prepare = fault_prepare,
                                    .unprepare = fault_unprepare,
                                    .post = fault_post,
                                    .cancel = fault_cancel,
                                    .progress = progress,
                                    .fd = get_fd,
                                    .arm = arm,
                                    .uses = setup->inner->uses ? uses : NULL,
                                    .cost = cost};
  setup->table.abilities.flags &= ~(uint32_t)TRANSPORT_CONCURRENT_POST;
}
